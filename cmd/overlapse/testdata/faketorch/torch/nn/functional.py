def layer_norm(x, shape):
    return x


def silu(x):
    return x


def scaled_dot_product_attention(q, k, v, is_causal=False):
    return q

package workload

import (
	"fmt"
	"strings"
)

// A ShapeKind is the operator of a Shape.
type ShapeKind uint8

// The kinds of shapes.
const (
	NoShape ShapeKind = iota
	GEMM
	GEMV
	Embedding
	Elementwise
	EmbeddingGrad
)

func (k ShapeKind) String() string {
	return [...]string{"", "gemm", "gemv", "embedding", "elementwise", "embedding gradient"}[k]
}

// A Shape is the sizes of an operator: C[M,N] = A[M,K]·B[K,N] for GEMM, where a batch
// counts as more rows M. For an Embedding, M output vectors of N elements, each the sum of
// K rows. For Elementwise, M rows of N elements. For an EmbeddingGrad, M gradient vectors of N
// elements, each added to K rows. A grouped GEMM, of the experts of a mixture, has a B for each
// of Groups groups of the rows of A (rule G22).
type Shape struct {
	Kind     ShapeKind
	M, N, K  int64
	Groups   int64 // of a grouped GEMM; 0 or 1: one GEMM
	ElemSize int   // bytes
	DType    string
	Evidence string // source of the sizes
	Guessed  byte   // 'N' or 'K': the side with which the machine's law takes the captured time; 0: none
	Like     string // convolution or attention that counts as a GEMM; else ""
}

// skinny is the smaller side of an output up to which a GEMM counts as a GEMV: that of the
// narrowest matrix instruction. Such a kernel reads its weights once and is memory-bound.
const skinny = 8

// GEMMKind tells GEMVs, of few rows or columns, from GEMMs.
func GEMMKind(m, n int64) ShapeKind {
	if min(m, n) <= skinny {
		return GEMV
	}
	return GEMM
}

// Flops is twice the number of multiply-adds; 0 except for GEMM and GEMV.
func (s Shape) Flops() float64 {
	if s.Kind != GEMM && s.Kind != GEMV {
		return 0
	}
	return 2 * float64(s.M) * float64(s.N) * float64(s.K)
}

// String is the shape as tables show it: "gemm 8192x4096x3584 bf16"; with ~ in front of a guessed side.
func (s Shape) String() string {
	switch s.Kind {
	case NoShape:
		return ""
	case Elementwise:
		return fmt.Sprintf("%s %dx%d %s", s.Kind, s.M, s.N, s.DType)
	}
	if s.Groups > 1 {
		return fmt.Sprintf("grouped %s %dx%dx%d %s, %d groups", s.Kind, s.M, s.N, s.K, s.DType, s.Groups)
	}
	about := map[byte]string{s.Guessed: "~"}
	return strings.TrimSpace(fmt.Sprintf("%s %dx%s%dx%s%d %s", s.Kind, s.M, about['N'], s.N, about['K'], s.K, s.DType))
}

// Traffic is the minimum memory traffic of the shape, in bytes: every operand once
// (rule M1).
func (s Shape) Traffic() (read, write float64) {
	m, n, k, e := float64(s.M), float64(s.N), float64(s.K), float64(s.ElemSize)
	switch s.Kind {
	case GEMM, GEMV:
		return (m*k + float64(max(1, s.Groups))*k*n) * e, m * n * max(e, min(2, 2*e)) // a GEMM of single bytes stores wider elements
	case Embedding:
		return m * k * n * e, m * n * e
	case Elementwise:
		return m * n * e, m * n * e
	case EmbeddingGrad:
		return (m*k + m) * n * e, m * k * n * e
	}
	return 0, 0
}

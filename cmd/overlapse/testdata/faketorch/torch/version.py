hip, cuda = None, "13.0"

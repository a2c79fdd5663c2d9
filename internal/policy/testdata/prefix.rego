package nsm

default valid = false

# Names that begin with nse, owned by somebody, called by a peer whose certificate has a key that signed before.
valid {
	startswith(input.resource_name, "nse")
	count(input.resource_path_ids_map[input.resource_name]) > 0
	io.jwt.verify_es256(input.path_segments[input.index - 1].token, input.auth_info.certificate)
}

# A policy that contradicts itself, which is an error and not a denial.
valid = false {
	input.resource_name == "nse-broken"
}

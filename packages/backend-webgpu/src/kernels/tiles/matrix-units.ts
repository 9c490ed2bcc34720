/** Invocations of the subgroups that kernels for matrix units are written for. */
export const SUBGROUP = 32;

/** Elements of a side of a subgroup matrix. */
export const SIDE = 16;

/** Elements of a load of kernels for matrix units, a vec4<u32>. */
export const UNIT = 8;

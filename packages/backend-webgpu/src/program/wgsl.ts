/**
 * Marks template literals as WGSL for editors. Values are inserted as they are, so snippets and numbers
 * compose; problem sizes never belong here (each would compile another pipeline).
 */
export function wgsl(strings: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw({ raw: strings.map((text) => text) }, ...values);
}

/** Invocations per workgroup of kernels that have no reason for another number. */
export const WORKGROUP_SIZE = 256;

/**
 * The arguments of `main` for kernels that are started with a count of workgroups:
 * `fn main(${linearBuiltins}) { let group = workgroup_index(workgroup, workgroups); ... }`
 */
export const linearBuiltins: string = [
  "@builtin(workgroup_id) workgroup: vec3<u32>",
  "@builtin(num_workgroups) workgroups: vec3<u32>",
  "@builtin(local_invocation_index) lane: u32",
].join(", ");

/** The place of a workgroup in a count that may have been folded to two dimensions. */
export const workgroupIndex: string = wgsl`
fn workgroup_index(workgroup: vec3<u32>, workgroups: vec3<u32>) -> u32 {
  return workgroup.y * workgroups.x + workgroup.x;
}
`;

/** `count` lines of generated text, numbered from 0. */
export function lines(count: number, line: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => line(i)).join("\n");
}

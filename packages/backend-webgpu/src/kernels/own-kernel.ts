import type { Operation, Support } from "@backplane/core";

/**
 * A kernel for an operation that somebody else than core has defined: a WGSL text and a grid. `dispatch` runs it
 * once for each call.
 *
 * Each operand that `operands` names is a storage buffer of its name: `array<f32>` for the element "f32", and so
 * on. Its elements begin at `parameters.NAME_offset`, in elements. Operands that the operation reads can only be
 * read. Each number that `parameters` names is `parameters.NAME`.
 */
export interface OwnWebGpuKernel<Problem = never> {
  readonly operation: Operation;
  /** The calls that it takes. */
  readonly supports: readonly Support[];
  /** How elements lie in the operands of the problem that have these names. */
  readonly operands: Readonly<Record<string, "f32" | "u32" | "i32">>;
  /** The numbers of the problem that the text uses. Default: none. */
  readonly parameters?: Readonly<Record<string, "f32" | "u32" | "i32">>;
  /**
   * Functions and the entry point `main`. More than 65,535 workgroups lie in a grid of two dimensions, which may
   * begin one row too many: `main` finds its place by `workgroup_index(workgroup_id, num_workgroups)`, and checks it
   * against a bound.
   */
  readonly wgsl: string;
  /** How many workgroups one call takes. */
  workgroups(problem: Problem): number;
}

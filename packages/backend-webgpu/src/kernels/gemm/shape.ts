/** What a choice between variants may look at: sizes and how the operands lie, no buffers. */
export interface GemmShape {
  readonly dtype: "f32" | "f16";
  readonly m: number;
  readonly n: number;
  /** At least 1. */
  readonly k: number;
  readonly batch: number;
  readonly transA: boolean;
  readonly transB: boolean;
  /** Every run of four along the rows of the stored operand is whole and aligned to four elements. */
  readonly vectorA: boolean;
  readonly vectorB: boolean;
  /** Every run of eight along the rows of both stored operands is, and every run of four of C. */
  readonly wholeEights: boolean;
}

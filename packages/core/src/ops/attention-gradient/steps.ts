import type { Region } from "../../region.js";
import { bytesOf, moveRows } from "../attention/rows.js";
import type { CopyProblem } from "../copy/index.js";
import type { AttentionGradientProblem, GradientRows } from "./index.js";

/** What computes the gradient on operands whose rows lie anywhere: these problems in turn. */
export interface AttentionGradientSteps<Memory> {
  readonly before: readonly CopyProblem<Memory>[];
  /** Its `rows` is undefined. */
  readonly gradient: AttentionGradientProblem<Memory>;
  readonly after: readonly CopyProblem<Memory>[];
}

const inputs = ["q", "k", "v", "out", "outGradient"] as const;
const outputs = ["qGradient", "kGradient", "vGradient"] as const;

/**
 * For backends whose kernels take contiguous rows: copies of the others into scratch memory, and of the results back.
 *
 * @param scratch returns so many bytes of memory
 */
export function contiguousGradientSteps<Memory>(
  problem: AttentionGradientProblem<Memory>,
  scratch: (bytes: number) => Region<Memory>,
): AttentionGradientSteps<Memory> {
  const { dtype, rows = {} } = problem;
  const moved: Partial<Record<GradientRows, Region<Memory>>> = {};
  const copies = (names: readonly GradientRows[], direction: "gather" | "scatter") =>
    names.flatMap((name) => {
      const own = rows[name];
      if (own === undefined) return [];
      const room = scratch(bytesOf(dtype, own));
      moved[name] = room;
      const [from, to] = direction === "gather" ? [problem[name], room] : [room, problem[name]];
      return [moveRows(dtype, own, direction, from, to)];
    });
  const before = copies(inputs, "gather");
  const after = copies(outputs, "scatter");
  return { before, gradient: { ...problem, ...moved, rows: undefined }, after };
}

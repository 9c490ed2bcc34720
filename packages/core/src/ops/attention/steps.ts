import type { Region } from "../../region.js";
import type { CopyProblem } from "../copy/index.js";
import type { AttentionProblem } from "./index.js";
import { bytesOf, moveRows, type Rows } from "./rows.js";

/** What computes attention on operands whose rows lie anywhere: these problems in turn. */
export interface AttentionSteps<Memory> {
  readonly before: readonly CopyProblem<Memory>[];
  /** Its `rows` is undefined. */
  readonly attention: AttentionProblem<Memory>;
  readonly after: CopyProblem<Memory> | undefined;
}

/**
 * For backends whose kernels take contiguous rows: copies of the others into scratch memory, and of the results back.
 *
 * @param scratch returns so many bytes of memory
 */
export function contiguousSteps<Memory>(
  problem: AttentionProblem<Memory>,
  scratch: (bytes: number) => Region<Memory>,
): AttentionSteps<Memory> {
  const { dtype, rows = {} } = problem;
  const before: CopyProblem<Memory>[] = [];
  const gathered = (region: Region<Memory>, own: Rows | undefined): Region<Memory> => {
    if (own === undefined) return region;
    const room = scratch(bytesOf(dtype, own));
    before.push(moveRows(dtype, own, "gather", region, room));
    return room;
  };
  const [q, k, v] = [gathered(problem.q, rows.q), gathered(problem.k, rows.k), gathered(problem.v, rows.v)];
  const out = rows.out === undefined ? problem.out : scratch(bytesOf(dtype, rows.out));
  return {
    before,
    attention: { ...problem, rows: undefined, q, k, v, out },
    after: rows.out && moveRows(dtype, rows.out, "scatter", out, problem.out),
  };
}

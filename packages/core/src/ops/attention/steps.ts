import type { Region } from "../../region.js";
import type { CopyProblem } from "../copy/index.js";
import type { AttentionProblem } from "./index.js";
import { bytesOf, moveRows, type Rows } from "./rows.js";

type RowsApart = Readonly<Partial<Record<"q" | "k" | "v" | "out", Rows>>>;
type ApartName = keyof RowsApart;

/** What computes attention on operands whose rows lie anywhere: these problems in turn. */
export interface AttentionSteps<Memory> {
  readonly before: readonly CopyProblem<Memory>[];
  /** Its `rows` has only what stays where it is. */
  readonly attention: AttentionProblem<Memory>;
  readonly after: CopyProblem<Memory> | undefined;
}

/**
 * For backends whose kernels take contiguous rows: copies of the others into scratch memory, and of the results back.
 *
 * @param scratch returns so many bytes of memory
 * @param stays tells of an operand in `rows` whether kernels take it where it is. Default: none
 */
export function contiguousSteps<Memory>(
  problem: AttentionProblem<Memory>,
  scratch: (bytes: number) => Region<Memory>,
  stays: (name: ApartName, rows: Rows) => boolean = () => false,
): AttentionSteps<Memory> {
  const { dtype } = problem;
  const given = Object.entries(problem.rows ?? {}) as [ApartName, Rows][];
  const rows: RowsApart = Object.fromEntries(given.filter(([name, own]) => !stays(name, own)));
  const kept: RowsApart = Object.fromEntries(given.filter(([name]) => rows[name] === undefined));
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
    attention: { ...problem, rows: Object.keys(kept).length === 0 ? undefined : kept, q, k, v, out },
    after: rows.out && moveRows(dtype, rows.out, "scatter", out, problem.out),
  };
}

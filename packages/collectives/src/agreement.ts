import { dtypes } from "@backplane/core";
import { CommunicationError } from "./errors.js";
import type { Link } from "./link.js";

/** What must be the same on all ranks before anything is moved. Undefined: the call has no such argument. */
export interface Terms {
  readonly operation: string;
  readonly dtype?: string;
  readonly count?: number;
  readonly kind?: string;
  readonly root?: number;
}

const operations = ["allReduce", "broadcast", "allGather", "reduceScatter", "barrier", "split", "dispose"];

/** The terms as numbers that MPI can compare, and back. */
const fields: readonly (readonly [name: keyof Terms, values?: readonly string[]])[] = [
  ["operation", operations],
  ["dtype", dtypes],
  ["kind", ["sum", "mean", "max", "min"]],
  ["count"],
  ["root"],
];

function encode(terms: Terms): number[] {
  return fields.map(([name, values]) => {
    const value = terms[name];
    return typeof value === "string" ? values!.indexOf(value) : (value ?? -1);
  });
}

function text(field: number, code: number): string {
  const [name, values] = fields[field]!;
  return name === "operation" ? values![code]! : `${name} ${values?.[code] ?? code}`;
}

/**
 * Resolves when all ranks have come to the same call with the same terms, and are ready. Otherwise rejects on all of
 * them. `failure`: why this rank is not ready; that is what its promise then rejects with.
 */
export async function agree(link: Link, terms: Terms, failure: unknown): Promise<void> {
  if (link.size === 1) {
    if (failure !== undefined) throw failure;
    return;
  }
  const wait = { operation: terms.operation, isPatient: true };
  const mine = [failure === undefined ? 0 : 1, ...encode(terms)];
  // The largest of each number and of its negative: the same everywhere if they cancel.
  const extremes = Float64Array.from([...mine, ...mine.map((value) => -value)]);
  await link.allReduce(extremes, "max", wait);
  const isSame = mine.every((_, i) => extremes[i]! + extremes[mine.length + i]! === 0);
  if (isSame && extremes[0] === 0) return;
  // All ranks know that something is wrong. Here they learn what.
  const all = new Float64Array(mine.length * link.size);
  await link.allGather(bytesOf(Float64Array.from(mine)), bytesOf(all), wait);
  if (failure !== undefined) throw failure;
  throw disagreement(terms, mine, all);
}

/** The error of a rank with the numbers `mine`, where `all` has those of every rank, one after the other. */
function disagreement(terms: Terms, mine: readonly number[], all: Float64Array): CommunicationError {
  const ranks = Array.from({ length: all.length / mine.length }, (_, rank) => rank);
  const of = (rank: number, i: number): number => all[rank * mine.length + i]!;
  // Another operation explains all else, and the terms of a rank that failed may be missing.
  const failed = ranks.filter((rank) => of(rank, 0) !== 0);
  const checked = fields.map((_, i) => i + 1).slice(0, failed.length > 0 ? 1 : undefined);
  for (const i of checked) {
    const others = ranks.filter((rank) => of(rank, i) !== mine[i]);
    if (others.length === 0) continue;
    const list = others.map((rank) => `${text(i - 1, of(rank, i))} on rank ${rank}`).join(", ");
    const complaint = `is ${text(i - 1, mine[i]!)} on this rank, and ${list}; allowed: the same on all ranks`;
    return new CommunicationError("MISMATCH", terms.operation, complaint, others);
  }
  const complaint = `rank ${failed.join(", ")} could not read its operand, or has refused its arguments`;
  return new CommunicationError("RANK_FAILED", terms.operation, complaint, failed);
}

export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

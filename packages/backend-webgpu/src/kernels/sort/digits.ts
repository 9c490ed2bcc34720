import type { ScanProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { isNarrow } from "../machine.js";
import { sliceOf } from "../segments/index.js";
import { countProgram, DIGITS, PASS_BITS, PASS_ROUNDS, scatterProgram } from "./digits.wgsl.js";
import { keyTexts } from "./keys.wgsl.js";
import { type Records, type Rows, regionsOf, type Sinks, type Sources, sinkOf, WORD } from "./regions.js";
import { itemsFor, mostItems } from "./select.js";
import { tileRecords } from "./tile.wgsl.js";

const countOf = memoized(countProgram);
const scatterOf = memoized(scatterProgram);

/** How the operands lie: whole, or, of a single row, in pieces that a binding shows. */
export interface Pieces {
  /** Elements of each piece but the last: a whole number of tiles if there are several. */
  readonly length: number;
  readonly sources: readonly Sources[];
  /** As far as there are results. */
  readonly results: readonly Sinks[];
  /** Enqueues a scan. */
  readonly addUp: (problem: ScanProblem<DeviceMemory>) => void;
}

/** Sorts rows, which follow one another, by digits, the lowest first. */
export function sortByDigits(context: KernelContext, rows: Rows, pieces: Pieces): void {
  const { dtype, count: rowCount, length, kept, flip } = rows;
  const { sources: parts, results, addUp } = pieces;
  const items = itemsFor(pieces.length, mostItems(context.features));
  const tile = tileRecords(items);
  const sizes = parts.map((_, i) => Math.min(pieces.length, length - i * pieces.length));
  const tiles = sizes.map((size) => Math.ceil(size / tile));
  const perPiece = tiles[0]!;
  const rowTiles = tiles.reduce((sum, own) => sum + own, 0);
  const tableBytes = WORD * DIGITS * rowCount * rowTiles;
  const [table, upTo] = [context.scratch(tableBytes), context.scratch(tableBytes)];
  const linesOf = (region: BufferRegion, first: number, lines: number) =>
    sliceOf(region, "u32", first * DIGITS, lines * DIGITS);
  const last = linesOf(upTo, rowTiles - 1, (rowCount - 1) * rowTiles + 1);
  const records = () =>
    sizes.map((size): Records => {
      const bytes = WORD * rowCount * size;
      return { keys: context.scratch(bytes), tags: context.scratch(bytes) };
    });

  let sources: readonly Sources[] = parts;
  let spare: readonly Records[] | undefined;
  const { bits } = keyTexts[dtype];
  for (let shift = 0; shift < bits; shift += PASS_BITS) {
    for (const [i, source] of sources.entries()) {
      const data = "data" in source ? { data: source.data } : { keys: source.keys };
      const [own, parameters] = [
        tiles[i]!,
        { rows: rowCount, length: sizes[i]!, tiles: tiles[i]!, shift, flip },
      ];
      context.dispatch(
        "data" in source
          ? countOf({ dtype, source: "elements", items })
          : countOf({ dtype: "u32", source: "records", items }),
        { ...data, table: linesOf(table, i * perPiece, rowCount * own) } as Readonly<
          Record<"data" | "keys" | "table", BufferRegion>
        >,
        parameters,
        rowCount * own,
      );
    }
    addUp({
      ...{ dtype: "u32", kind: "sum", outer: rowCount, length: rowTiles, inner: DIGITS },
      ...{ exclusive: false, reverse: false, input: table, output: upTo },
    });
    const isLast = shift + PASS_BITS >= bits;
    const sinks: readonly Sinks[] = isLast ? results : (spare ?? records());
    for (const [i, source] of sources.entries())
      for (const [j, sink] of sinks.entries()) {
        const [first, own] = [i * perPiece, tiles[i]!];
        const isMove = !("data" in source) && "keys" in sink;
        const form = {
          source: "data" in source ? "elements" : "records",
          sink: sinkOf(sink),
          items,
        } as const;
        context.dispatch(
          scatterOf({ dtype: isMove ? "u32" : dtype, ...form, unrolled: !isNarrow(context.features) }),
          regionsOf(source, sink, {
            own: linesOf(upTo, first, rowCount * own),
            before: linesOf(upTo, Math.max(first - 1, 0), rowCount * own),
            last,
          }),
          {
            ...{ rows: rowCount, length: sizes[i]!, tiles: own, shift, rounds: PASS_ROUNDS, flip },
            ...{ first_place: i * pieces.length, first_result: j * pieces.length },
            results: Math.min(pieces.length, (isLast ? kept : length) - j * pieces.length),
          },
          rowCount * own,
        );
      }
    if (isLast) return;
    spare = "data" in sources[0]! ? undefined : (sources as readonly Records[]);
    sources = sinks as readonly Records[];
  }
}

import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  i32,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";

/** Roughly how long one worker takes to pack an element. */
export const packNanoseconds = 0.3;

/**
 * Packing. A `line` is a row of op(A) or a column of op(B): k elements that are multiplied with those of
 * another line. A panel is `width` lines, stored so that the innermost loop reads straight ahead: for each p,
 * element p of every line, in f32. The last panel repeats lines or takes up the bytes after them; those
 * results are never stored in C.
 *
 * pack(source, stride, lines, k, panels, alongK, even):
 *   alongK != 0: element p of line i is at source + i * stride + p * element bytes
 *   alongK == 0: element p of line i is at source + p * stride + i * element bytes
 *   even: see `panelHeight`
 */
export function packFunction(module: ModuleBuilder, dtype: FloatType, width: number): FunctionReference {
  const transpose = transposeFunction(module, dtype, width);
  const copyMany = copyFunction(module, dtype, width, rowsTogether);
  const copyOne = copyFunction(module, dtype, width, 1);
  return module.shared(`gemm_pack_panels_${dtype}_${width}`, (label) =>
    module.function(
      label,
      { source: "i32", stride: "i32", lines: "i32", k: "i32", panels: "i32", alongK: "i32", even: "i32" },
      (f, { source, stride, lines, k, panels, alongK, even }) => {
        const panelBytes = f.let(i32.mul(k, 4 * width));
        const transposePanels = (): void => {
          f.while(lines, () => {
            const height = panelHeight(f, lines, width, even);
            f.call(transpose, source, stride, height, k, panels);
            f.add(source, i32.mul(stride, height));
            f.add(panels, panelBytes);
            f.set(lines, i32.sub(lines, height));
          });
        };
        const copyPanels = (): void => {
          const p = f.let(i32.const(0));
          const copyRows = (callee: FunctionReference, rows: number) => (): void => {
            f.call(callee, source, stride, lines, panels, panelBytes, even);
            f.add(source, i32.mul(stride, rows));
            f.add(panels, 4 * width * rows);
          };
          f.forLocal(p, i32.and(k, -rowsTogether), copyRows(copyMany, rowsTogether), { step: rowsTogether });
          f.forLocal(p, k, copyRows(copyOne, 1));
        };
        f.if(alongK, transposePanels, copyPanels);
      },
    ),
  );
}

/**
 * Returns the lines of the next panel if `left` are left: its width, or the rest. If `even`, the last two
 * panels have the same height: tiles of one, two or three rows take as long as one of four, because they have
 * too few independent sums.
 */
export function panelHeight(
  f: FunctionBuilder,
  left: Local<"i32">,
  width: number,
  even: Local<"i32">,
): Local<"i32"> {
  const height = f.let(i32.minU(left, width));
  const moreThanOne = i32.ltU(i32.sub(left, width + 1), width - 1);
  f.if(i32.and(even, moreThanOne), () => f.set(height, i32.shrU(i32.add(left, 1), 1)));
  return height;
}

/**
 * Stored rows that are copied side by side if lines lie across k, from the first panel to the last. Memory is
 * fastest with a few long pieces at a time, and whole cache lines of panels are written one after the other.
 * Eight panels at a time, from the first row to the last, take 1.4 to 2 times as long if B comes from memory.
 */
const rowsTogether = 8;

/** One panel of lines that each lie in one piece. */
function transposeFunction(module: ModuleBuilder, dtype: FloatType, width: number): FunctionReference {
  return module.shared(`gemm_transpose_panel_${dtype}_${width}`, (label) =>
    module.function(
      label,
      { source: "i32", stride: "i32", lines: "i32", k: "i32", panel: "i32" },
      (f, { source, stride, lines, k, panel }) =>
        transposePanel(f, elementsOf(f, dtype), width, { source, stride, lines, k, panel }),
    ),
  );
}

/**
 * Copies `rows` elements of all lines, if lines lie across k: reads each row in one piece and writes it in
 * pieces to all panels.
 */
function copyFunction(
  module: ModuleBuilder,
  dtype: FloatType,
  width: number,
  rows: number,
): FunctionReference {
  return module.shared(`gemm_copy_rows_${dtype}_${width}_${rows}`, (label) =>
    module.function(
      label,
      { source: "i32", stride: "i32", lines: "i32", panels: "i32", panelBytes: "i32", even: "i32" },
      (f, { source, stride, lines, panels, panelBytes, even }) => {
        const elements = elementsOf(f, dtype);
        const sources = Array.from({ length: rows }, (_, p) => f.let(i32.add(source, i32.mul(stride, p))));
        f.while(lines, () => {
          const height = panelHeight(f, lines, width, even);
          for (const [p, row] of sources.entries()) {
            for (let i = 0; i < width; i += 4) {
              const part = elements.load(row, i * elements.bytes);
              const to = 4 * (p * width + i);
              if (width - i >= 4) f.store(panels, part, to);
              else storeFirst(f, panels, f.let(part), to, width - i);
            }
            f.add(row, i32.shl(height, elements.shift));
          }
          f.add(panels, panelBytes);
          f.set(lines, i32.sub(lines, height));
        });
      },
    ),
  );
}

type I32 = Local<"i32">;

/** Each line lies in one piece: four elements of all lines are loaded and transposed in registers. */
function transposePanel(
  f: FunctionBuilder,
  elements: Elements,
  width: number,
  { source, stride, lines, k, panel }: Readonly<Record<"source" | "stride" | "lines" | "k" | "panel", I32>>,
): void {
  const last = f.let(i32.sub(lines, 1));
  const lineAddresses = Array.from({ length: width }, (_, i) =>
    f.let(i32.add(source, i32.mul(stride, i32.minU(last, i)))),
  );
  const advance = (count: number): void => {
    for (const line of lineAddresses) f.add(line, count * elements.bytes);
    f.add(panel, 4 * width * count);
  };
  const vectorEnd = f.let(i32.and(k, -4));
  const p = f.local("i32");
  f.forLocal(
    p,
    vectorEnd,
    () => {
      const store = transposedStores(
        f,
        lineAddresses.map((line) => f.let(elements.load(line))),
      );
      for (let step = 0; step < 4; step++) store(step, panel, 4 * step * width);
      advance(4);
    },
    { step: 4 },
  );
  f.forLocal(p, k, () => {
    for (const [i, line] of lineAddresses.entries())
      f.storeLane(32, 0, panel, elements.loadSplat(line), 4 * i);
    advance(1);
  });
}

export function transpose4(f: FunctionBuilder, rows: readonly Local<"v128">[]): Value<"v128">[] {
  const [r0, r1, r2, r3] = rows as readonly [Local<"v128">, Local<"v128">, Local<"v128">, Local<"v128">];
  const low01 = f.let(shuffle32([0, 4, 1, 5], r0, r1));
  const high01 = f.let(shuffle32([2, 6, 3, 7], r0, r1));
  const low23 = f.let(shuffle32([0, 4, 1, 5], r2, r3));
  const high23 = f.let(shuffle32([2, 6, 3, 7], r2, r3));
  return [
    shuffle32([0, 1, 4, 5], low01, low23),
    shuffle32([2, 3, 6, 7], low01, low23),
    shuffle32([0, 1, 4, 5], high01, high23),
    shuffle32([2, 3, 6, 7], high01, high23),
  ];
}

/** Stores the first 1, 2 or 3 lanes. */
function storeFirst(
  f: FunctionBuilder,
  address: I32,
  value: Local<"v128">,
  offset: number,
  count: number,
): void {
  if (count >= 2) f.storeLane(64, 0, address, value, offset);
  if (count % 2 === 1) f.storeLane(32, count - 1, address, value, offset + 4 * (count - 1));
}

/**
 * Packs a part of one panel from lines that lie anywhere, each in one piece:
 *
 *   gather(lines, offset, k, panel, step):
 *     element p of line i, at the i-th address at `lines` + offset + p * element bytes,
 *     goes to panel + p * step + 4 i, in f32
 *
 * Reads whole vectors of lines, up to three elements past their end.
 */
export function gatherFunction(module: ModuleBuilder, dtype: FloatType, width: number): FunctionReference {
  return module.shared(`gather_panel_${dtype}_${width}`, (label) =>
    module.function(
      label,
      { lines: "i32", offset: "i32", k: "i32", panel: "i32", step: "i32" },
      (f, { lines, offset, k, panel, step }) => {
        const elements = elementsOf(f, dtype);
        const addresses = Array.from({ length: width }, (_, i) =>
          f.let(i32.add(i32.load(lines, 4 * i), offset)),
        );
        f.while(i32.gtS(k, 0), () => {
          const rows = addresses.map((line) => f.let(elements.load(line)));
          const columns = transposedStores(f, rows);
          f.block((done) => {
            for (let p = 0; p < 4; p++) {
              if (p > 0) f.brIf(done, i32.leS(k, p));
              columns(p, panel, 0);
              f.add(panel, step);
            }
          });
          for (const line of addresses) f.add(line, 4 * elements.bytes);
          f.set(k, i32.sub(k, 4));
        });
      },
    ),
  );
}

/** Stores column `p` of some rows at an address and so many bytes after it. */
type StoreColumn = (p: number, panel: I32, offset: number) => void;

/** Transposes rows of four elements in registers. Returns what stores column `p`. */
function transposedStores(f: FunctionBuilder, rows: readonly Local<"v128">[]): StoreColumn {
  const width = rows.length;
  const stores: StoreColumn[] = [];
  let first = 0;
  for (; first + 4 <= width; first += 4) {
    const at = 4 * first;
    const columns = transpose4(f, rows.slice(first, first + 4)).map((column) => f.let(column));
    stores.push((p, panel, offset) => f.store(panel, columns[p]!, offset + at));
  }
  if (width - first >= 2) {
    const at = 4 * first;
    const low = f.let(shuffle32([0, 4, 1, 5], rows[first]!, rows[first + 1]!));
    const high = f.let(shuffle32([2, 6, 3, 7], rows[first]!, rows[first + 1]!));
    stores.push((p, panel, offset) => f.storeLane(64, p % 2, panel, p < 2 ? low : high, offset + at));
  }
  if (width % 2 === 1) {
    const last = rows[width - 1]!;
    stores.push((p, panel, offset) => f.storeLane(32, p, panel, last, offset + 4 * (width - 1)));
  }
  return (p, panel, offset) => {
    for (const store of stores) store(p, panel, offset);
  };
}

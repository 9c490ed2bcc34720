import type { DType } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  i32,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../convert/elements.js";

/**
 * Packing. A `line` is a row of op(A) or a column of op(B): k elements that are multiplied with
 * those of another line. A panel is `width` lines, stored so that the innermost loop reads straight
 * ahead: for each p, element p of every line, in f32. The last panel repeats lines or takes up
 * whatever follows them; what comes of that is never stored in C.
 *
 * pack(source, stride, lines, k, panels, alongK):
 *   alongK != 0: element p of line i is at source + i * stride + p * element bytes
 *   alongK == 0: element p of line i is at source + p * stride + i * element bytes
 */
export function packFunction(module: ModuleBuilder, dtype: DType, width: number): FunctionReference {
  const alongK = panelFunction(module, dtype, width, "k");
  const acrossK = panelFunction(module, dtype, width, "lines");
  const elementBytes = dtype === "f32" ? 4 : 2;
  return module.shared(`gemm_pack_panels_${dtype}_${width}`, (label) =>
    module.function(
      label,
      { source: "i32", stride: "i32", lines: "i32", k: "i32", panels: "i32", alongK: "i32" },
      (f, parameters) => {
        const { source, stride, lines, k, panels } = parameters;
        const panelBytes = f.let(i32.mul(k, 4 * width));
        f.forRange(
          0,
          lines,
          (i) => {
            const count = f.let(i32.minU(i32.sub(lines, i), width));
            f.if(
              parameters.alongK,
              () => {
                f.call(alongK, source, stride, count, k, panels);
                f.add(source, i32.mul(stride, width));
              },
              () => {
                f.call(acrossK, source, stride, count, k, panels);
                f.add(source, width * elementBytes);
              },
            );
            f.add(panels, panelBytes);
          },
          { step: width },
        );
      },
    ),
  );
}

function panelFunction(
  module: ModuleBuilder,
  dtype: DType,
  width: number,
  contiguous: "k" | "lines",
): FunctionReference {
  return module.shared(`gemm_pack_panel_${dtype}_${width}_${contiguous}`, (label) =>
    module.function(
      label,
      { source: "i32", stride: "i32", lines: "i32", k: "i32", panel: "i32" },
      (f, { source, stride, lines, k, panel }) => {
        const elements = elementsOf(f, dtype);
        if (contiguous === "k") transposePanel(f, elements, width, { source, stride, lines, k, panel });
        else copyPanel(f, elements, width, { source, stride, k, panel });
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
      const rows = lineAddresses.map((line) => f.let(elements.load(line)));
      let first = 0;
      for (; first + 4 <= width; first += 4) {
        const columns = transpose4(f, rows.slice(first, first + 4));
        for (const [step, column] of columns.entries()) f.store(panel, column, 4 * (step * width + first));
      }
      if (width - first >= 2) {
        const low = f.let(shuffle32([0, 4, 1, 5], rows[first]!, rows[first + 1]!));
        const high = f.let(shuffle32([2, 6, 3, 7], rows[first]!, rows[first + 1]!));
        for (let step = 0; step < 4; step++)
          f.storeLane(64, step % 2, panel, step < 2 ? low : high, 4 * (step * width + first));
        first += 2;
      }
      if (width - first === 1) {
        for (let step = 0; step < 4; step++)
          f.storeLane(32, step, panel, rows[first]!, 4 * (step * width + first));
      }
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

function transpose4(f: FunctionBuilder, rows: readonly Local<"v128">[]): Value<"v128">[] {
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

/** The elements p of all lines lie in one piece: `width` elements are copied for each p. */
function copyPanel(
  f: FunctionBuilder,
  elements: Elements,
  width: number,
  { source, stride, k, panel }: Readonly<Record<"source" | "stride" | "k" | "panel", I32>>,
): void {
  f.forRange(0, k, () => {
    for (let i = 0; i < width; i += 4) {
      const part = elements.load(source, i * elements.bytes);
      if (width - i >= 4) f.store(panel, part, 4 * i);
      else storeFirst(f, panel, f.let(part), 4 * i, width - i);
    }
    f.add(source, stride);
    f.add(panel, 4 * width);
  });
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

import { type FunctionBuilder, i32, type Local } from "../../wasm/index.js";

/** How rows of all planes are dealt out: the parameters of a kernel whose chunk is some rows, or their part in one panel. */
export const panelTypes = {
  /** Rows of all planes. */
  rows: "i32",
  rowsPerChunk: "i32",
  /** Panels of columns, and the columns of one. */
  panels: "i32",
  panelWidth: "i32",
} as const;

export type PanelName = keyof typeof panelTypes;

/** The part of a chunk. */
export interface PanelRows {
  /** The first column, and how many columns there are. */
  readonly x: Local<"i32">;
  readonly columns: Local<"i32">;
  /** Row `y` of a plane is row `row` of all. */
  readonly row: Local<"i32">;
  readonly rowEnd: Local<"i32">;
  readonly plane: Local<"i32">;
  readonly y: Local<"i32">;
  /** Calls `body` for each row. It may go on to a later row of the same plane, by `row` and `y`. */
  forRows(body: () => void): void;
}

/** Finds the part of a chunk of planes with this height and width. */
export function panelRows(
  f: FunctionBuilder,
  { rows, rowsPerChunk, panels, panelWidth }: Readonly<Record<keyof typeof panelTypes, Local<"i32">>>,
  chunk: Local<"i32">,
  height: Local<"i32">,
  width: Local<"i32">,
): PanelRows {
  const block = f.let(i32.divU(chunk, panels));
  const x = f.let(i32.mul(i32.sub(chunk, i32.mul(block, panels)), panelWidth));
  const columns = f.let(i32.minU(panelWidth, i32.sub(width, x)));
  const row = f.let(i32.mul(block, rowsPerChunk));
  const rowEnd = f.let(i32.add(row, i32.minU(rowsPerChunk, i32.sub(rows, row))));
  const plane = f.let(i32.divU(row, height));
  const y = f.let(i32.sub(row, i32.mul(plane, height)));
  return {
    ...{ x, columns, row, rowEnd, plane, y },
    forRows: (body) =>
      f.forLocal(row, rowEnd, () => {
        body();
        f.add(y, 1);
        f.if(i32.eq(y, height), () => {
          f.set(y, 0);
          f.add(plane, 1);
        });
      }),
  };
}

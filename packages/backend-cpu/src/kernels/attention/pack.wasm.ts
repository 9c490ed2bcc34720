import { type FunctionBuilder, i32, type Local } from "../../wasm/index.js";
import type { Elements } from "../elements/index.js";
import { rowBytes } from "./layout.js";

/** to[block][c][lane] = from[8 block + lane][c], in f32; lanes past the last row repeat it. */
export function emitPacked(
  f: FunctionBuilder,
  elements: Elements,
  tile: {
    readonly from: Local<"i32">;
    readonly to: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly count: Local<"i32">;
    readonly blocks: Local<"i32">;
    readonly blockBytes: Local<"i32">;
  },
): void {
  const rowSize = f.let(i32.shl(tile.headSize, elements.shift));
  f.forRange(0, i32.shl(tile.blocks, 3), (lane) => {
    const row = i32.minU(lane, i32.sub(tile.count, 1));
    const from = f.let(i32.add(tile.from, i32.mul(row, rowSize)));
    const block = i32.mul(i32.shrU(lane, 3), tile.blockBytes);
    const to = f.let(i32.add(i32.add(tile.to, block), i32.shl(i32.and(lane, 7), 2)));
    f.forRange(
      0,
      tile.headSize,
      () => {
        const x = f.let(elements.load(from));
        for (let i = 0; i < 4; i++) f.storeLane(32, i, to, x, rowBytes * i);
        f.add(from, 4 * elements.bytes);
        f.add(to, 4 * rowBytes);
      },
      { step: 4 },
    );
  });
}

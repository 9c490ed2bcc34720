import type { ConvolutionTile } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { boundedEpilogue, epilogueFunction } from "../epilogue/index.js";
import { tileColumns } from "../tile/index.js";
import { copiedVectors, placeBytes, type TransformedParameters } from "./transformed-types.js";
import { transforms } from "./transforms.js";

/** The tiles of a chunk that are in one row of tiles. */
interface Segment {
  /** Of the first one: its number in the chunk, and its image, row and column. */
  readonly tile: Local<"i32">;
  readonly image: Local<"i32">;
  readonly y: Local<"i32">;
  readonly x: Local<"i32">;
  readonly tiles: Local<"i32">;
}

/** Returns what calls `body` for each row of tiles that a chunk has a part of. */
function segmentsOf(
  f: FunctionBuilder,
  { tilesX, tilesY }: TransformedParameters,
  { first, tiles }: Readonly<Record<"first" | "tiles", Local<"i32">>>,
): { each(body: (segment: Segment) => void): void } {
  const firstRow = f.let(i32.divU(first, tilesX));
  const firstX = f.let(i32.sub(first, i32.mul(firstRow, tilesX)));
  const firstImage = f.let(i32.divU(firstRow, tilesY));
  const firstY = f.let(i32.sub(firstRow, i32.mul(firstImage, tilesY)));
  return {
    each(body) {
      const tile = f.let(i32.const(0));
      const x = f.let(firstX);
      const y = f.let(firstY);
      const image = f.let(firstImage);
      f.while(i32.ltU(tile, tiles), () => {
        const count = f.let(i32.minU(i32.sub(tilesX, x), i32.sub(tiles, tile)));
        body({ tile, image, y, x, tiles: count });
        f.add(tile, count);
        f.set(x, 0);
        f.add(y, 1);
        f.if(i32.eq(y, tilesY), () => {
          f.set(y, 0);
          f.add(image, 1);
        });
      });
    },
  };
}

/**
 * Emits what is common to all inputs of a chunk. Returns what transforms those of `count` channels from `channel` on: row by row to
 * places in a first-level cache, [row][column][tile], and then down the columns, to panels that products read.
 */
export function inputTransform(
  f: FunctionBuilder,
  tile: ConvolutionTile,
  p: TransformedParameters,
  part: Readonly<Record<"first" | "tiles" | "columns" | "line" | "inputs", Local<"i32">>>,
): (channel: Local<"i32">, count: Local<"i32">) => void {
  const { points, outputs, input, spread } = transforms[tile];
  const transform = input(f);
  const zero = f.let(f32x4.const(0));
  const { line, inputs } = part;
  const zeros = f.let(i32.add(line, p.lineBytes));
  const places = f.let(i32.add(zeros, p.lineBytes));
  // What lies beside tiles is computed, too: from zeros at first, because some numbers are slower than others.
  f.memoryFill(line, 0, i32.add(i32.shl(p.lineBytes, 1), points ** 2 * placeBytes));
  const rowBytes = f.let(i32.shl(p.width, 2));
  const planeBytes = f.let(i32.mul(p.height, rowBytes));
  const segments = segmentsOf(f, p, part);
  const to = f.local("i32");
  const zerosTo = (end: Value<"i32">): void => {
    const last = f.let(end);
    f.forLocal(to, last, () => f.store(to, zero), { step: 16 });
    f.set(to, last);
  };

  const transformRows = (channel: Value<"i32">, segment: Segment): void => {
    const y = f.let(i32.sub(i32.mul(segment.y, outputs), p.top));
    const x = f.let(i32.sub(i32.mul(segment.x, outputs), p.left));
    // Of the inputs that the tiles meet, those from `begin` to `until` are in the image.
    const met = f.let(i32.add(i32.mul(segment.tiles, outputs), points - outputs));
    const begin = f.let(i32.minS(i32.maxS(i32.sub(0, x), 0), met));
    const until = f.let(i32.maxS(i32.minS(i32.sub(p.width, x), met), begin));
    const isWhole = f.let(i32.eq(i32.sub(until, begin), met));
    const isOutside = f.let(i32.eq(until, begin));
    const end = f.let(i32.add(line, i32.shl(met, 2)));
    const plane = i32.add(
      p.input,
      i32.mul(i32.add(i32.mul(segment.image, p.inChannels), channel), planeBytes),
    );
    const row = f.let(i32.add(plane, i32.add(i32.mul(y, rowBytes), i32.shl(x, 2))));
    const place = f.let(i32.add(places, i32.shl(segment.tile, 2)));
    f.forRange(0, points, () => {
      const from = f.let(zeros);
      f.if(i32.and(i32.ltU(y, p.height), i32.eqz(isOutside)), () =>
        f.if(
          isWhole,
          () => f.set(from, row),
          () => {
            f.set(to, line);
            zerosTo(i32.add(line, i32.shl(begin, 2)));
            f.set(from, i32.add(row, i32.shl(begin, 2)));
            const copied = f.let(i32.add(line, i32.shl(until, 2)));
            f.forLocal(
              to,
              copied,
              () => {
                for (let v = 0; v < copiedVectors; v++) f.store(to, v128.load(from, 16 * v), 16 * v);
                f.add(from, 16 * copiedVectors);
              },
              { step: 16 * copiedVectors },
            );
            f.set(to, copied);
            zerosTo(end);
            f.set(from, line);
          },
        ),
      );
      const at = f.let(place);
      const placeEnd = f.let(i32.add(at, i32.shl(segment.tiles, 2)));
      f.forLocal(
        at,
        placeEnd,
        () => {
          const row = spread(f, (element) => v128.load(from, 4 * element));
          for (const [j, value] of transform(row).entries()) f.store(at, value, placeBytes * j);
          f.add(from, 16 * outputs);
        },
        { step: 16 },
      );
      f.add(place, points * placeBytes);
      f.add(row, rowBytes);
      f.add(y, 1);
    });
  };

  const lineStep = f.let(i32.mul(p.inputPointBytes, points));
  const transformColumns = (to: Local<"i32">, panelBytes: Local<"i32">): void => {
    const at = f.let(places);
    const panel = f.let(to);
    f.forRange(
      0,
      part.columns,
      () => {
        for (let half = 0; half < tileColumns; half += 4) {
          const targets = Array.from({ length: points }, () => f.local("i32"));
          for (const [i, target] of targets.entries())
            f.set(target, i === 0 ? panel : i32.add(targets[i - 1]!, lineStep));
          for (let j = 0; j < points; j++) {
            const column = Array.from({ length: points }, (_, i) =>
              f.let(v128.load(at, (points * i + j) * placeBytes + 4 * half)),
            );
            for (const [i, value] of transform(column).entries()) {
              f.store(targets[i]!, value, 4 * half);
              if (j + 1 < points) f.add(targets[i]!, p.inputPointBytes);
            }
          }
        }
        f.add(at, 4 * tileColumns);
        f.add(panel, panelBytes);
      },
      { step: tileColumns },
    );
  };

  return (channel, count) => {
    const panelBytes = f.let(i32.mul(count, 4 * tileColumns));
    const target = f.let(inputs);
    f.forRange(0, count, (c) => {
      segments.each((segment) => transformRows(i32.add(channel, c), segment));
      transformColumns(target, panelBytes);
      f.add(target, 4 * tileColumns);
    });
  };
}

/** Transforms the sums of a chunk back, with bias and activation. */
export function emitOutputs(
  f: FunctionBuilder,
  module: ModuleBuilder,
  tile: ConvolutionTile,
  p: TransformedParameters,
  part: Readonly<Record<"first" | "tiles" | "sums" | "channel" | "channels", Local<"i32">>>,
): void {
  const { points, outputs, output, gather } = transforms[tile];
  const transform = output(f);
  const elements = elementsOf(f, "f32");
  const { isBounded, finish, nothing } = boundedEpilogue(f, p.activation);
  const isSmooth = f.let(i32.and(i32.ne(p.activation, 0), i32.eqz(isBounded)));
  const none = f.let(i32.const(0));
  const rowBytes = f.let(i32.shl(p.outWidth, 2));
  const planeBytes = f.let(i32.mul(p.outHeight, rowBytes));
  const sumsRow = f.let(i32.shl(p.tilesPerChunk, 2));
  const lineStep = f.let(i32.mul(p.sumsPointBytes, points));
  const segments = segmentsOf(f, p, part);
  const sums = f.let(part.sums);
  const addend = f.let(nothing);
  const channelEnd = f.let(i32.add(part.channel, part.channels));
  const channel = f.let(part.channel);
  f.forLocal(channel, channelEnd, () => {
    f.if(p.bias, () => f.set(addend, v128.load32Splat(i32.add(p.bias, i32.shl(channel, 2)))));
    segments.each((segment) => {
      const y = f.let(i32.mul(segment.y, outputs));
      const x = f.let(i32.mul(segment.x, outputs));
      const rows = f.let(i32.minU(i32.sub(p.outHeight, y), outputs));
      const rowOutputs = f.let(i32.minU(i32.sub(p.outWidth, x), i32.mul(segment.tiles, outputs)));
      const plane = i32.mul(i32.add(i32.mul(segment.image, p.outChannels), channel), planeBytes);
      const place = i32.add(i32.mul(y, rowBytes), i32.shl(x, 2));
      const row = f.let(i32.add(p.output, i32.add(plane, place)));
      const to = f.let(row);
      const from = f.let(i32.add(sums, i32.shl(segment.tile, 2)));
      const left = f.let(rowOutputs);
      f.while(i32.gtS(left, 0), () => {
        const lines = Array.from({ length: points }, () => f.local("i32"));
        for (const [i, at] of lines.entries()) f.set(at, i === 0 ? from : i32.add(lines[i - 1]!, lineStep));
        const columns = Array.from({ length: points }, (_, j) => {
          const column = lines.map((at) => f.let(v128.load(at)));
          if (j + 1 < points) for (const at of lines) f.add(at, p.sumsPointBytes);
          return transform(column).map((value) => f.let(value));
        });
        const target = f.let(to);
        f.block((done) => {
          for (let i = 0; i < outputs; i++) {
            if (i > 0) f.brIf(done, i32.leU(rows, i));
            const values = transform(columns.map((column) => column[i]!)).map((value) => f.let(value));
            const vectors = gather(f, values).map((value) => f.let(finish(value, addend)));
            f.if(
              i32.geU(left, 4 * outputs),
              () => {
                for (const [v, vector] of vectors.entries()) f.store(target, vector, 16 * v);
              },
              (stored) => {
                for (const [v, vector] of vectors.entries()) {
                  f.if(i32.ltU(left, 4 * v + 4), () => {
                    elements.storeFirst(i32.add(target, 16 * v), vector, i32.sub(left, 4 * v));
                    f.br(stored);
                  });
                  f.store(target, vector, 16 * v);
                }
              },
            );
            f.add(target, rowBytes);
          }
        });
        f.add(from, 16);
        f.add(to, 16 * outputs);
        f.set(left, i32.sub(left, 4 * outputs));
      });
      f.if(isSmooth, () =>
        f.call(epilogueFunction(module), row, rowBytes, rows, rowOutputs, none, none, p.activation),
      );
    });
    f.add(sums, sumsRow);
  });
}

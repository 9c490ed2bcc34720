import { type FunctionBuilder, f32x4, i32, type Local, shuffle32, type Value } from "../../wasm/index.js";
import type { Elements } from "../elements/index.js";
import type { Block } from "./block.js";

/** distances[c, i, j], in bytes. */
export function emitDistances(f: FunctionBuilder, block: Block, distances: Local<"i32">): void {
  const { strideX, strideY, dilationX, dilationY, phaseBytes } = block.parameters;
  const to = f.let(distances);
  f.forRange(0, block.parameters.depthChannels, (c) => {
    f.forRange(0, block.parameters.kernelHeight, (i) => {
      const below = f.let(i32.mul(i, dilationY));
      const row = i32.mul(quotient(f, below, strideY), block.rowBytes);
      const start = f.let(i32.add(i32.mul(c, block.planeBytes), row));
      const phase = f.let(i32.mul(remainder(f, below, strideY), strideX));
      f.forRange(0, block.parameters.kernelWidth, (j) => {
        const beside = f.let(i32.mul(j, dilationX));
        const column = i32.shl(quotient(f, beside, strideX), 2);
        const phaseStart = i32.mul(i32.add(phase, remainder(f, beside, strideX)), phaseBytes);
        f.store(to, i32.add(start, i32.add(column, phaseStart)));
        f.add(to, 4);
      });
    });
  });
}

/**
 * Copies the part of one input channel that the block uses. Vectors may reach past the end of a row, by less
 * than 64 bytes: the next row is written later.
 */
export function emitPlane(
  f: FunctionBuilder,
  elements: Elements,
  block: Block,
  source: Local<"i32">,
  plane: Local<"i32">,
): void {
  const { height, width, top, left, strideX, strideY, kernelHeight, dilationY, pitch, phaseBytes } =
    block.parameters;
  const { rowBytes } = block;
  const zero = f.let(f32x4.const(0));
  const to = f.local("i32");
  const from = f.local("i32");
  const zeros = (end: Local<"i32">): void => {
    f.forLocal(to, end, () => f.store(to, zero), { step: 16 });
    f.set(to, end);
  };
  const reach = i32.add(i32.mul(i32.sub(kernelHeight, 1), dilationY), 1);
  const rowsMet = f.let(i32.add(i32.mul(i32.sub(block.rows, 1), strideY), reach));
  const firstY = i32.sub(i32.mul(block.y, strideY), top);
  const firstX = i32.sub(i32.mul(block.x, strideX), left);
  const sourceBytes = f.let(i32.shl(width, elements.shift));
  f.forRange(0, block.phasesY, (phaseY) => {
    f.forRange(0, block.phasesX, (phaseX) => {
      // The element e of the phase is the input column e * strideX + shift: inside from `begin` to `until`.
      const shift = f.let(i32.add(firstX, phaseX));
      const begin = countBelow(f, i32.sub(0, shift), strideX, pitch);
      const until = countBelow(f, i32.sub(width, shift), strideX, pitch);
      const start = f.let(i32.add(plane, i32.mul(i32.add(i32.mul(phaseY, strideX), phaseX), phaseBytes)));
      const inputY = f.let(i32.add(firstY, phaseY));
      const inputX = i32.add(i32.mul(begin, strideX), shift);
      const firstSource = f.let(i32.add(source, i32.shl(inputX, elements.shift)));
      const row = f.let(phaseY);
      f.forLocal(
        row,
        rowsMet,
        () => {
          f.set(to, start);
          const end = f.let(i32.add(start, rowBytes));
          f.if(i32.and(i32.ltU(inputY, height), i32.gtS(until, begin)), () => {
            zeros(f.let(i32.add(start, i32.shl(begin, 2))));
            f.set(from, i32.add(firstSource, i32.mul(inputY, sourceBytes)));
            const copied = f.let(i32.add(start, i32.shl(until, 2)));
            copyEvery(f, elements, strideX, { from, to, end: copied });
            f.set(to, copied);
          });
          zeros(end);
          f.set(start, end);
          f.add(inputY, strideY);
        },
        { step: strideY },
      );
      // To the last row its right padding; to the others it is the left padding of the next one.
      f.set(to, start);
      zeros(f.let(i32.add(start, i32.shl(block.parameters.sharedPadding, 2))));
    });
  });
}

/** How many of the numbers 0, step, 2 step, ... are below `limit` (signed), at most `most`. */
function countBelow(
  f: FunctionBuilder,
  limit: Value<"i32">,
  step: Local<"i32">,
  most: Local<"i32">,
): Local<"i32"> {
  const rounded = f.let(i32.add(i32.maxS(limit, 0), i32.sub(step, 1)));
  return f.let(i32.minU(quotient(f, rounded, step), most));
}

/** a / b and a % b; b is a stride, mostly 1, and a branch is cheaper than a division. */
function quotient(f: FunctionBuilder, a: Local<"i32">, b: Local<"i32">): Local<"i32"> {
  const result = f.let(a);
  f.if(i32.ne(b, 1), () => f.set(result, i32.divU(a, b)));
  return result;
}

function remainder(f: FunctionBuilder, a: Local<"i32">, b: Local<"i32">): Local<"i32"> {
  const result = f.let(i32.const(0));
  f.if(i32.ne(b, 1), () => f.set(result, i32.remU(a, b)));
  return result;
}

/** Copies every `stride`th element from one place on until the copies reach `end`. */
function copyEvery(
  f: FunctionBuilder,
  elements: Elements,
  stride: Local<"i32">,
  { from, to, end }: Readonly<Record<"from" | "to" | "end", Local<"i32">>>,
): void {
  const vectors = (count: number, stride: number, vector: (offset: number) => Value<"v128">): void =>
    f.forLocal(
      to,
      end,
      () => {
        for (let i = 0; i < count; i++) f.store(to, vector(4 * stride * i * elements.bytes), 16 * i);
        f.add(from, 4 * stride * count * elements.bytes);
      },
      { step: 16 * count },
    );
  const pairs = (offset: number): Value<"v128"> => {
    const low = f.let(elements.load(from, offset));
    const high = f.let(elements.load(from, offset + 4 * elements.bytes));
    return shuffle32([0, 2, 4, 6], low, high);
  };
  const single = (): void => {
    const step = f.let(i32.shl(stride, elements.shift));
    f.forLocal(
      to,
      end,
      () => {
        f.storeLane(32, 0, to, elements.loadSplat(from));
        f.add(from, step);
      },
      { step: 4 },
    );
  };
  f.if(
    i32.eq(stride, 1),
    () => vectors(4, 1, (offset) => elements.load(from, offset)),
    () => f.if(i32.eq(stride, 2), () => vectors(2, 2, pairs), single),
  );
}

import type { ArgReduceKind } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  type FunctionReference,
  i32,
  i32x4,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type ComputedType, elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import { panelColumns, slabTypes, slabWork } from "../rows/index.js";
import { type Comparison, comparisonOf } from "./compare.js";

/** The output is i32: places of the first piece of all rows, then of the next. */
const types: Readonly<Record<"input" | "output" | "outputs" | keyof typeof slabTypes, "i32">> = {
  ...{ input: "i32", output: "i32", outputs: "i32" },
  ...slabTypes,
};

export type ArgReduceTypes = typeof types;

/** Elements whose extremum is known before its place is sought; they are then in the first-level cache. */
const blockElements = 2048;

/** Vectors of a round of the search for the extremum of a row. */
const roundVectors = 4;

/** Lines that a round of columns compares with the best so far. */
const roundLines = 8;

/** The work of a chunk, and the place of its first result. */
function workOf(f: FunctionBuilder, p: ParameterLocals<ArgReduceTypes>, chunk: Local<"i32">) {
  const work = slabWork(f, p, chunk);
  const first = i32.add(i32.mul(work.row, p.inner), work.column);
  const to = f.let(i32.add(p.output, i32.shl(i32.add(i32.mul(work.piece, p.outputs), first), 2)));
  return { ...work, to };
}

/** Rows of neighbours: the axis is the innermost. */
export function argReduceRowsKernel(kind: ArgReduceKind, dtype: ComputedType): Kernel<ArgReduceTypes> {
  return defineKernel<ArgReduceTypes>({
    name: `${kind}_rows_${dtype}`,
    parameters: types,
    emit(f, { parameters, chunk, module }) {
      const find = findFunction(module, kind, dtype);
      const { shift } = elementFormats[dtype];
      const { row, rowEnd, begin, count, to } = workOf(f, parameters, chunk);
      const { input, length } = parameters;
      const at = f.let(i32.add(input, i32.shl(i32.add(i32.mul(row, length), begin), shift)));
      const rowBytes = f.let(i32.shl(length, shift));
      f.forLocal(row, rowEnd, () => {
        f.store(to, i32.add(begin, callValue("i32", find, at, count)));
        f.add(to, 4);
        f.add(at, rowBytes);
      });
    },
  });
}

/**
 * The first place of the extremum of `count` neighbours. Their extremum comes first, block by block, which takes
 * no more than reading them; a block is searched for its place only if it has a better one than all before.
 */
function findFunction(module: ModuleBuilder, kind: ArgReduceKind, dtype: ComputedType): FunctionReference {
  const { worst, extreme, beats, equal, isNan } = comparisonOf(kind, dtype);
  return module.shared(`${kind}_find_${dtype}`, (label) =>
    module.functionOf("i32", label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const elements = elementsOf(f, dtype);
      const bytes = 4 * elements.bytes;
      const none = f.let(worst);
      const zero = f.let(i32x4.const(0));
      const lanes = f.let(i32x4.const(0, 1, 2, 3));
      const best = f.let(none);
      const parts = Array.from({ length: roundVectors }, () => f.local("v128"));
      const [first, ...others] = parts as [Local<"v128">, ...Local<"v128">[]];
      const nans = f.local("v128");
      const place = f.let(i32.const(0));
      const blockAt = f.let(at);
      const blockFirst = f.let(i32.const(0));
      const rest = f.local("i32");
      const found = f.local("i32");

      const take = (part: Local<"v128">, x: Local<"v128">): void => {
        f.set(part, extreme(part, x));
        if (isNan) f.set(nans, v128.or(nans, isNan(x)));
      };
      /** The place of the first element for which the mask is set; there is one. */
      const seek = (mask: (x: Local<"v128">) => Value<"v128">): void => {
        f.set(at, blockAt);
        f.loop((again) => {
          f.set(found, i32x4.bitmask(mask(f.let(elements.load(at)))));
          f.add(at, bytes);
          f.brIf(again, i32.eqz(found));
        });
        const vector = i32.shl(i32.divU(i32.sub(i32.sub(at, blockAt), bytes), bytes), 2);
        f.set(place, i32.add(blockFirst, i32.add(vector, i32.ctz(found))));
      };

      f.while(i32.gtS(count, 0), () => {
        f.set(rest, i32.minS(count, blockElements));
        f.set(at, blockAt);
        for (const part of parts) f.set(part, none);
        f.set(nans, zero);
        f.while(i32.geS(rest, 4 * roundVectors), () => {
          for (const [i, part] of parts.entries()) take(part, f.let(elements.load(at, bytes * i)));
          f.add(at, bytes * roundVectors);
          f.add(rest, -4 * roundVectors);
        });
        f.while(i32.gtS(rest, 0), () => {
          const isElement = i32x4.gtS(i32x4.splat(rest), lanes);
          take(first, f.let(v128.bitselect(elements.load(at), none, isElement)));
          f.add(at, bytes);
          f.add(rest, -4);
        });
        if (isNan)
          f.if(v128.anyTrue(nans), () => {
            seek(isNan);
            f.return(place);
          });
        for (const part of others) f.set(first, extreme(first, part));
        f.set(first, extreme(first, shuffle32([2, 3, 0, 1], first, first)));
        f.set(first, extreme(first, shuffle32([1, 0, 3, 2], first, first)));
        f.if(v128.anyTrue(beats(first, best)), () => {
          f.set(best, first);
          seek((x) => equal(x, best));
        });
        f.add(blockAt, blockElements * elements.bytes);
        f.add(blockFirst, blockElements);
        f.add(count, -blockElements);
      });
      return place;
    }),
  );
}

/**
 * Lines of columns: another axis. The best element of each column and its place are in scratch memory, and some
 * lines at a time are compared with them.
 */
export function argReduceColumnsKernel(kind: ArgReduceKind, dtype: ComputedType): Kernel<ArgReduceTypes> {
  const comparison = comparisonOf(kind, dtype);
  return defineKernel<ArgReduceTypes>({
    name: `${kind}_columns_${dtype}`,
    parameters: types,
    scratchBytes: 8 * panelColumns,
    emit(f, { parameters, chunk, scratch }) {
      const elements = elementsOf(f, dtype);
      const places = elementsOf(f, "i32");
      const { row, rowEnd, begin, column, columns, count, to } = workOf(f, parameters, chunk);
      const { input, length, inner } = parameters;
      const lineBytes = f.let(i32.shl(inner, elements.shift));
      const firstLine = i32.add(i32.mul(row, length), begin);
      const slabAt = f.let(
        i32.add(i32.add(input, i32.mul(firstLine, lineBytes)), i32.shl(column, elements.shift)),
      );
      const slabBytes = f.let(i32.mul(length, lineBytes));
      const at = f.local("i32");
      const lines = f.local("i32");
      const place = f.local("v128");
      const one = f.let(i32x4.const(1));
      const own = f.local("i32");
      const remaining = f.local("i32");
      const result = f.local("i32");

      /** Goes along the columns, four at a time, on some lines; `own` is where their best and its places are. */
      const along = (count: number, body: (xs: readonly Local<"i32">[]) => void): void => {
        const line = Array.from({ length: count }, (_, i) => f.let(i32.add(at, i32.mul(lineBytes, i))));
        f.set(own, scratch);
        f.set(remaining, columns);
        f.loop((again) => {
          body(line);
          for (const local of line) f.add(local, 4 * elements.bytes);
          f.add(own, 32);
          f.add(remaining, -4);
          f.brIf(again, i32.gtS(remaining, 0));
        });
        f.add(at, i32.mul(lineBytes, count));
        f.set(lines, i32.sub(lines, count));
      };
      const compareLines = (count: number): void =>
        along(count, (line) => {
          const best = f.let(v128.load(own));
          const bestPlace = f.let(v128.load(own, 16));
          const current = f.let(place);
          for (const [i, from] of line.entries()) {
            if (i > 0) f.set(current, i32x4.add(current, one));
            const x = f.let(elements.load(from));
            takeBetter(f, comparison, [best, bestPlace], [x, current]);
          }
          f.store(own, best);
          f.store(own, bestPlace, 16);
        });

      f.forLocal(row, rowEnd, () => {
        f.set(at, slabAt);
        f.set(lines, count);
        f.set(place, i32x4.splat(begin));
        along(1, ([line]) => {
          f.store(own, elements.load(line!));
          f.store(own, place, 16);
        });
        f.set(place, i32x4.add(place, one));
        const several = f.let(i32x4.const(roundLines));
        f.while(i32.geU(lines, roundLines), () => {
          compareLines(roundLines);
          f.set(place, i32x4.add(place, several));
        });
        f.while(lines, () => {
          compareLines(1);
          f.set(place, i32x4.add(place, one));
        });
        f.set(own, scratch);
        f.set(remaining, columns);
        f.set(result, to);
        f.loop((again) => {
          const found = f.let(v128.load(own, 16));
          f.if(
            i32.geS(remaining, 4),
            () => places.store(result, found),
            () => places.storeFirst(result, found, remaining),
          );
          f.add(own, 32);
          f.add(result, 16);
          f.add(remaining, -4);
          f.brIf(again, i32.gtS(remaining, 0));
        });
        f.add(to, i32.shl(inner, 2));
        f.add(slabAt, slabBytes);
      });
    },
  });
}

function takeBetter(
  f: FunctionBuilder,
  { replaces }: Comparison,
  [best, bestPlace]: readonly [Local<"v128">, Local<"v128">],
  [x, place]: readonly [Local<"v128">, Local<"v128">],
): void {
  const mask = f.let(replaces(x, best));
  f.set(best, f.choose(x, best, mask));
  f.set(bestPlace, f.choose(place, bestPlace, mask));
}

const joinTypes = {
  input: "i32",
  places: "i32",
  output: "i32",
  outputs: "i32",
  length: "i32",
  inner: "i32",
  pieces: "i32",
} as const;

export type ArgReduceJoinTypes = typeof joinTypes;

/** Results that one chunk joins. */
export const joinedPerChunk = 1024;

/** output[i] = of the places that the pieces found, that of the best element; the elements are read again. */
export function argReduceJoinKernel(kind: ArgReduceKind, dtype: ComputedType): Kernel<ArgReduceJoinTypes> {
  const { replaces } = comparisonOf(kind, dtype);
  return defineKernel({
    name: `${kind}_join_${dtype}`,
    parameters: joinTypes,
    emit(f, { parameters, chunk }) {
      const { input, places, output, outputs, length, inner, pieces } = parameters;
      const elements = elementsOf(f, dtype);
      const begin = f.let(i32.mul(chunk, joinedPerChunk));
      const end = f.let(i32.add(begin, i32.minU(i32.sub(outputs, begin), joinedPerChunk)));
      f.forLocal(begin, end, () => {
        const row = f.let(i32.divU(begin, inner));
        const column = f.let(i32.remU(begin, inner));
        const elementAt = (place: Local<"i32">): Local<"v128"> => {
          const line = i32.add(i32.mul(row, length), place);
          const index = i32.add(i32.mul(line, inner), column);
          return f.let(elements.loadSplat(f.let(i32.add(input, i32.shl(index, elements.shift)))));
        };
        const from = f.let(i32.add(places, i32.shl(begin, 2)));
        const found = f.let(i32.load(from));
        const best = f.let(elementAt(found));
        f.forRange(1, pieces, () => {
          f.add(from, i32.shl(outputs, 2));
          const next = f.let(i32.load(from));
          const x = elementAt(next);
          f.if(v128.anyTrue(replaces(x, best)), () => {
            f.set(best, x);
            f.set(found, next);
          });
        });
        f.store(i32.add(output, i32.shl(begin, 2)), found);
      });
    },
  });
}

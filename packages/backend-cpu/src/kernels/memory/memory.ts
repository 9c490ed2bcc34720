import type { Region } from "@backplane/core";
import { i32, i32x4 } from "../../wasm/index.js";
import {
  type AnyKernel,
  address,
  type CpuMemory,
  defineKernel,
  type Kernel,
  type Launch,
} from "../kernel.js";
import { emitMove } from "./move.wasm.js";

const chunkBytes = 1 << 18;
/** Roughly how long a byte takes one worker. */
const byteNanoseconds = 0.025;

const fillTypes = { destination: "i32", bytes: "i32", pattern: "i32" } as const;

/** The byte at `destination + i` becomes byte i % 4 of `pattern`, lowest first. */
export const fillPattern: Kernel<typeof fillTypes> = defineKernel({
  name: "fill_pattern",
  parameters: fillTypes,
  emit(f, { parameters, chunk }) {
    const { destination, bytes, pattern } = parameters;
    const begin = f.let(i32.mul(chunk, chunkBytes));
    const end = f.let(i32.add(begin, i32.minU(i32.sub(bytes, begin), chunkBytes)));
    // Whole vectors, then bytes; both from offsets that are multiples of 4.
    const vectorEnd = f.let(i32.sub(end, i32.and(end, 15)));
    const patterns = f.let(i32x4.splat(pattern));
    f.forLocal(begin, vectorEnd, () => f.store(i32.add(destination, begin), patterns), { step: 16 });
    f.forLocal(begin, end, () => {
      f.store8(i32.add(destination, begin), i32.shrU(pattern, i32.shl(i32.and(begin, 3), 3)));
    });
  },
});

/** Every byte becomes the lowest of `pattern`; the engine's own fill, at memory speed. */
export const fillBytes: Kernel<typeof fillTypes> = defineKernel({
  name: "fill_bytes",
  parameters: fillTypes,
  emit(f, { parameters, chunk }) {
    const { destination, bytes, pattern } = parameters;
    const begin = f.let(i32.mul(chunk, chunkBytes));
    f.memoryFill(i32.add(destination, begin), pattern, i32.minU(i32.sub(bytes, begin), chunkBytes));
  },
});

const copyTypes = { destination: "i32", source: "i32", bytes: "i32" } as const;

/** Copies bytes between places that do not overlap. */
export const copyBytes: Kernel<typeof copyTypes> = defineKernel({
  name: "copy_bytes",
  parameters: copyTypes,
  emit(f, { parameters, chunk }) {
    const { destination, source, bytes } = parameters;
    const begin = f.let(i32.mul(chunk, chunkBytes));
    emitMove(
      f,
      f.let(i32.add(source, begin)),
      f.let(i32.add(destination, begin)),
      f.let(i32.minU(i32.sub(bytes, begin), chunkBytes)),
    );
  },
});

/** The kernels that the backend itself needs, whatever the operations. */
export const memoryKernels: readonly AnyKernel[] = [fillBytes, fillPattern, copyBytes];

/** The byte at place i of the allocation becomes byte i % 4 of `pattern`. */
export function planFill(destination: Region<CpuMemory>, pattern: number): Launch {
  const low = pattern & 0xff;
  const uniform = pattern >>> 0 === low * 0x01010101;
  // Turn the pattern so that its lowest byte is the first of the region.
  const turn = 8 * (destination.byteOffset % 4);
  const turned = turn === 0 ? pattern : (pattern >>> turn) | (pattern << (32 - turn));
  const kernel = uniform ? fillBytes : fillPattern;
  return kernel.launch(
    { destination: address(destination), bytes: destination.byteLength, pattern: turned },
    Math.ceil(destination.byteLength / chunkBytes),
    destination.byteLength * byteNanoseconds,
  );
}

/**
 * Systems hand out new memory page by page. Beside an H100, four workers get it at 3.2 GB/s, and sixteen hinder each other: 1 to
 * 2 GB/s.
 */
const mostTouching = 4;

/** Returns a command that has several workers touch new memory, which then reads as zeros. */
export function planTouch(region: Region<CpuMemory>): Launch {
  const launch = planFill(region, 0);
  return { ...launch, helpers: Math.min(launch.helpers, mostTouching) };
}

export function planCopy(destination: number, source: number, bytes: number): Launch {
  return copyBytes.launch(
    { destination, source, bytes },
    Math.ceil(bytes / chunkBytes),
    bytes * byteNanoseconds,
  );
}

/** Returns a command that does nothing, to mark a place in the queue. */
export function planNothing(): Launch {
  return fillBytes.launch({ destination: 0, bytes: 0, pattern: 0 }, 1);
}

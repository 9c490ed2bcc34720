import { type DriverKernels, operationNames, operations, type Region } from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import { ReferenceDriver, referenceKernels } from "../reference.js";

type Place = Region<ReferenceMemory>;

/** Pools by size, and forgets to clear the memory that comes out of the pool. */
export class StalePoolDriver extends ReferenceDriver {
  readonly #pool: ReferenceMemory[] = [];

  override alloc(bytes: number): ReferenceMemory {
    const at = this.#pool.findIndex((memory) => memory.length === bytes);
    return at < 0 ? super.alloc(bytes) : this.#pool.splice(at, 1)[0]!;
  }

  override free(memory: ReferenceMemory): void {
    this.#pool.push(memory);
  }
}

/** Pools by size, and clears the beginning only. */
export class HalfClearedPoolDriver extends StalePoolDriver {
  override alloc(bytes: number): ReferenceMemory {
    const memory = super.alloc(bytes);
    memory.fill(0, 0, 2 ** 16);
    return memory;
  }
}

/** Copies in pieces, and begins at the start of the source for each. */
export class PiecewiseCopyDriver extends ReferenceDriver {
  override copy(destination: Place, source: Place): void {
    const piece = 2 ** 18;
    for (let first = 0; first < source.byteLength; first += piece) {
      const byteLength = Math.min(piece, source.byteLength - first);
      const to = { ...destination, byteOffset: destination.byteOffset + first, byteLength };
      super.copy(to, { ...source, byteLength });
    }
  }
}

/** Fills one piece, however much there is to fill. */
export class ShortFillDriver extends ReferenceDriver {
  override fill(destination: Place, pattern: number): void {
    super.fill({ ...destination, byteLength: Math.min(destination.byteLength, 2 ** 18) }, pattern);
  }
}

/** Counts nothing. */
export class ModestDriver extends ReferenceDriver {
  override reservedBytes(): number {
    return 0;
  }
}

/** Reads back in whole words. */
export class TruncatedReadDriver extends ReferenceDriver {
  override read(
    destination: Uint8Array<ArrayBufferLike>,
    source: ReferenceMemory,
    byteOffset: number,
  ): Promise<void> {
    const whole = destination.length - (destination.length % 4);
    return super.read(destination.subarray(0, whole), source, byteOffset);
  }
}

/** Keeps writes back until something else is asked for. */
abstract class LateWriteDriver extends ReferenceDriver {
  readonly #writes: (() => void)[] = [];
  override readonly kernels: DriverKernels<ReferenceMemory> = this.#watched();

  /** Called before and after every call but `write`. */
  abstract around(body: () => void): void;
  /** Returns the part of the source that is kept. */
  abstract keep(source: Uint8Array<ArrayBufferLike>): Uint8Array<ArrayBufferLike>;

  flush(): void {
    for (const write of this.#writes.splice(0)) write();
  }

  override write(
    destination: ReferenceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): void {
    const kept = this.keep(source);
    this.#writes.push(() => super.write(destination, byteOffset, kept));
  }

  override readSync(
    destination: Uint8Array<ArrayBufferLike>,
    source: ReferenceMemory,
    byteOffset: number,
  ): void {
    this.flush();
    super.readSync(destination, source, byteOffset);
  }

  override copy(destination: Place, source: Place): void {
    this.around(() => super.copy(destination, source));
  }

  override fill(destination: Place, pattern: number): void {
    this.around(() => super.fill(destination, pattern));
  }

  #watched(): DriverKernels<ReferenceMemory> {
    const watched = operationNames.map((name) => {
      const { supports, run } = referenceKernels[name];
      const late = (problem: unknown) => this.around(() => (run as (problem: unknown) => void)(problem));
      return [name, { supports, run: late }];
    });
    return Object.fromEntries(watched) as DriverKernels<ReferenceMemory>;
  }
}

export class KeptReferenceDriver extends LateWriteDriver {
  override around(body: () => void): void {
    this.flush();
    body();
  }

  override keep(source: Uint8Array<ArrayBufferLike>): Uint8Array<ArrayBufferLike> {
    return source;
  }
}

export class ReorderedQueueDriver extends LateWriteDriver {
  override around(body: () => void): void {
    body();
    this.flush();
  }

  override keep(source: Uint8Array<ArrayBufferLike>): Uint8Array<ArrayBufferLike> {
    return source.slice();
  }
}

export class LongCopyDriver extends ReferenceDriver {
  override copy(destination: Place, source: Place): void {
    super.copy(destination, { ...source, byteLength: source.byteLength + 1 });
  }
}

export class LeakingDriver extends ReferenceDriver {
  override free(): void {}
}

/** Takes bytes when a read is carried out, not when it is asked for. */
export class LateReadDriver extends ReferenceDriver {
  override async read(
    destination: Uint8Array<ArrayBufferLike>,
    source: ReferenceMemory,
    byteOffset: number,
  ): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    return super.read(destination, source, byteOffset);
  }
}

/** Frees at once the memory that enqueued work still needs: here it is reused under pending reads. */
export class EagerFreeDriver extends LateReadDriver {
  override free(memory: ReferenceMemory): void {
    memory.fill(0xdb);
    super.free(memory);
  }
}

/** Fills as if every element had four bytes. */
export class WordFillDriver extends ReferenceDriver {
  override fill(destination: Place, pattern: number): void {
    const whole = destination.byteLength - (destination.byteLength % 4);
    super.fill({ ...destination, byteLength: whole }, pattern);
  }
}

/** An operand as problems hold it; not all that may be a scalar is a place. */
type Held = Place | { readonly region?: Place } | undefined;

function placeOf(held: Held): Place | undefined {
  return held === undefined || "memory" in held ? held : held.region;
}

function fromTheStart(held: Held): Held {
  if (held === undefined || "memory" in held) return held && { ...held, byteOffset: 0 };
  return held.region === undefined ? held : { ...held, region: { ...held.region, byteOffset: 0 } };
}

/** Takes operands in one allocation for whole allocations. */
function sliceless(): DriverKernels<ReferenceMemory> {
  const kernels = operationNames.map((name) => {
    const { supports, run } = referenceKernels[name];
    // Problems of select have the operands of map.
    const { operands } = operations[name === "select" ? "map" : name] as {
      readonly operands: readonly string[];
    };
    const wrong = (problem: Readonly<Record<string, Held | readonly Held[]>>) => {
      const memories = operands.flatMap((operand) => problem[operand]).map((held) => placeOf(held)?.memory);
      const input = operands.find((operand) => problem[operand] !== undefined)!;
      const [first, ...others] = [problem[input]].flat();
      const memory = placeOf(first)?.memory;
      const isShared = memory !== undefined && memories.filter((other) => other === memory).length > 1;
      const moved = isShared ? fromTheStart(first) : first;
      const changed = { ...problem, [input]: Array.isArray(problem[input]) ? [moved, ...others] : moved };
      (run as (problem: unknown) => void)(changed);
    };
    return [name, { supports, run: wrong }];
  });
  return Object.fromEntries(kernels) as DriverKernels<ReferenceMemory>;
}

export class SlicelessDriver extends ReferenceDriver {
  override readonly kernels: DriverKernels<ReferenceMemory> = sliceless();
}

/** Clears the output before it computes. */
export class ClobberingDriver extends ReferenceDriver {
  override readonly kernels: DriverKernels<ReferenceMemory> = {
    ...referenceKernels,
    unary: {
      ...referenceKernels.unary,
      run: (problem) => {
        this.fill(problem.output, 0);
        referenceKernels.unary.run(problem);
      },
    },
    binary: {
      ...referenceKernels.binary,
      run: (problem) => {
        // As a kernel does that accumulates b in the output.
        if ("region" in problem.b && problem.b.region.byteLength === problem.output.byteLength) {
          const { region } = problem.b;
          if (region.memory !== problem.output.memory) this.copy(problem.output, region);
          referenceKernels.binary.run({ ...problem, b: { ...problem.b, region: problem.output } });
        } else referenceKernels.binary.run(problem);
      },
    },
  };
}

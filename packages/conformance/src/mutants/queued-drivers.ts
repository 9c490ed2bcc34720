import type { BinaryProblem, DriverKernels, OperationName, Region } from "@backplane/core";
import { operationNames } from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import { ReferenceDriver, referenceKernels } from "../reference.js";

type Place = Region<ReferenceMemory>;

/** Returns the reference's kernels, with each call passed through a function first. */
export function intercepted(
  pass: (name: OperationName, problem: unknown, run: () => void) => void,
): DriverKernels<ReferenceMemory> {
  const kernels = operationNames.map((name) => {
    const { supports, run } = referenceKernels[name];
    const call = run as (problem: unknown) => void;
    return [name, { supports, run: (problem: unknown) => pass(name, problem, () => call(problem)) }];
  });
  return Object.fromEntries(kernels) as DriverKernels<ReferenceMemory>;
}

/** Work waits until somebody asks for bytes, as it does on a real device: not wrong in itself. */
export class QueuedDriver extends ReferenceDriver {
  readonly #queue: (() => void)[] = [];
  override readonly kernels: DriverKernels<ReferenceMemory> = intercepted((name, problem, run) =>
    this.enqueue(this.commandFor(name, problem, run)),
  );

  protected enqueue(command: () => void): void {
    this.#queue.push(command);
  }

  /** Returns the work of an operation when its turn comes. */
  protected commandFor(_name: OperationName, _problem: unknown, run: () => void): () => void {
    return run;
  }

  flush(): void {
    for (const command of this.#queue.splice(0)) command();
  }

  /** Drops the commands that wait, and returns them. */
  protected take(): (() => void)[] {
    return this.#queue.splice(0);
  }

  override write(
    destination: ReferenceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): void {
    const kept = source.slice();
    this.enqueue(() => super.write(destination, byteOffset, kept));
  }

  override copy(destination: Place, source: Place): void {
    this.enqueue(() => super.copy(destination, source));
  }

  override fill(destination: Place, pattern: number): void {
    this.enqueue(() => super.fill(destination, pattern));
  }

  override readSync(
    destination: Uint8Array<ArrayBufferLike>,
    source: ReferenceMemory,
    byteOffset: number,
  ): void {
    this.flush();
    super.readSync(destination, source, byteOffset);
  }

  protected readAsItIs(...args: Parameters<ReferenceDriver["readSync"]>): void {
    super.readSync(...args);
  }

  override async synchronize(): Promise<void> {
    this.flush();
  }
}

/** Has room for the arguments of 64 calls; later calls overwrite those of earlier ones that still wait. */
export class FewArgumentsDriver extends QueuedDriver {
  readonly #scalars = new Float64Array(64);
  #calls = 0;

  protected override commandFor(name: OperationName, problem: unknown, run: () => void): () => void {
    const given = problem as BinaryProblem<ReferenceMemory>;
    if (name !== "binary" || !("scalar" in given.b)) return run;
    const slot = this.#calls++ % this.#scalars.length;
    this.#scalars[slot] = given.b.scalar;
    return () => referenceKernels.binary.run({ ...given, b: { scalar: this.#scalars[slot]! } });
  }
}

/** Bytes of the host wait in memory that was freed, if it is large; enqueued work may still use it. */
export class BorrowingDriver extends QueuedDriver {
  #spare: ReferenceMemory | undefined;
  #used = 0;

  override free(memory: ReferenceMemory): void {
    if (memory.length >= 2 ** 24) this.#spare ??= memory;
    super.free(memory);
  }

  override write(
    destination: ReferenceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): void {
    const spare = this.#spare;
    const byteLength = source.length;
    if (spare === undefined || spare.length < this.#used + byteLength) {
      super.write(destination, byteOffset, source);
      return;
    }
    spare.set(source, this.#used);
    const from = { memory: spare, byteOffset: this.#used, byteLength };
    super.copy({ memory: destination, byteOffset, byteLength }, from);
    this.#used += byteLength;
  }
}

/** A read that has not been carried out. */
interface WaitingRead {
  place: Place;
}

/**
 * Carries out reads later. If a call follows that might change their source, it first copies the source
 * aside, into freed memory if there is any, which may itself be the source of another pending read.
 */
export class AsideDriver extends ReferenceDriver {
  override readonly kernels: DriverKernels<ReferenceMemory> = intercepted((_name, _problem, run) => {
    this.#copyAside();
    run();
  });
  readonly #free: ReferenceMemory[] = [];
  #overtaken: WaitingRead[] = [];

  override free(memory: ReferenceMemory): void {
    this.#free.push(memory);
    super.free(memory);
  }

  override write(
    destination: ReferenceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): void {
    this.#copyAside();
    super.write(destination, byteOffset, source);
  }

  override copy(destination: Place, source: Place): void {
    this.#copyAside();
    super.copy(destination, source);
  }

  override fill(destination: Place, pattern: number): void {
    this.#copyAside();
    super.fill(destination, pattern);
  }

  override async read(
    destination: Uint8Array<ArrayBufferLike>,
    memory: ReferenceMemory,
    byteOffset: number,
  ): Promise<void> {
    const waiting: WaitingRead = { place: { memory, byteOffset, byteLength: destination.length } };
    this.#overtaken.push(waiting);
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#overtaken = this.#overtaken.filter((other) => other !== waiting);
    await super.read(destination, waiting.place.memory, waiting.place.byteOffset);
  }

  #copyAside(): void {
    for (const waiting of this.#overtaken.splice(0)) {
      const { byteLength } = waiting.place;
      const at = this.#free.findLastIndex((memory) => memory.length >= byteLength);
      const memory = at < 0 ? new Uint8Array(byteLength) : this.#free.splice(at, 1)[0]!;
      const aside = { memory, byteOffset: 0, byteLength };
      super.copy(aside, waiting.place);
      waiting.place = aside;
    }
  }
}

/** One operation is put off until somebody asks for bytes, and finds its operands as they are then. */
export class LazyDriver extends ReferenceDriver {
  readonly #waiting: (() => void)[] = [];
  override readonly kernels: DriverKernels<ReferenceMemory>;

  constructor(lazy: OperationName) {
    super();
    this.kernels = intercepted((name, _problem, run) => {
      if (name === lazy) this.#waiting.push(run);
      else run();
    });
  }

  override readSync(
    destination: Uint8Array<ArrayBufferLike>,
    source: ReferenceMemory,
    byteOffset: number,
  ): void {
    for (const run of this.#waiting.splice(0)) run();
    super.readSync(destination, source, byteOffset);
  }
}

/** One operation allocates memory for itself at each call, and never frees it. */
export class HoardingDriver extends ReferenceDriver {
  override readonly kernels: DriverKernels<ReferenceMemory>;

  constructor(hoarder: OperationName) {
    super();
    this.kernels = intercepted((name, problem, run) => {
      const { a, input } = problem as { readonly a?: Place; readonly input?: Place };
      if (name === hoarder) this.alloc((a ?? input)!.byteLength + 1);
      run();
    });
  }
}

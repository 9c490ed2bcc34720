import {
  type ComputeBackend,
  createBackend,
  type DeviceHandle,
  type DType,
  dtypeBytes,
  dtypes,
  elementTypes,
  type FloatType,
  floatTypes,
  type Operand,
  type OperationName,
  operationNames,
  type Question,
} from "@backplane/core";
import { random } from "../data.js";
import { encoded, floatFormats } from "../elements.js";
import { argumentsOf } from "../kit/arguments.js";
import { sameBytes } from "../kit/checks.js";
import { type Dice, type Draft, type DraftLimits, makeDice } from "../kit/draft.js";
import { isUsable, magnitude, type Range, wholeRange, within } from "../kit/range.js";
import { testedOperations } from "../ops/index.js";
import { Oracle } from "./oracle.js";
import { type Location, moved, type Slot, touches } from "./slots.js";
import { complaintsKept, type Tally } from "./tally.js";

/** Sizes of the work of a walk. */
export interface WalkLimits extends DraftLimits {
  /** Live allocations at most, and their bytes. */
  readonly allocations: number;
  readonly liveBytes: number;
  /** The largest allocation that is made for bytes alone. */
  readonly largestBytes: number;
}

/** Some steps whose results are under way; `verify` waits for them and compares them. */
export interface Round {
  verify(): Promise<void>;
}

/**
 * A random walk over everything that a backend does: allocations of random sizes, transfers at any byte,
 * chains of operations on each other's results, frees at once after the last use, and reads that nobody
 * waits for. A round enqueues its steps; an oracle repeats them when the reads have come in.
 *
 * The steps stand together, because each of them draws from one sequence of random numbers and leaves memory for the next.
 */
export class Walk {
  readonly tally: Tally;
  readonly #backend: ComputeBackend;
  readonly #oracle: Oracle;
  readonly #twin: ComputeBackend;
  readonly #limits: WalkLimits;
  readonly #dice: Dice;
  readonly #operations: readonly { readonly name: OperationName; readonly dtype: FloatType }[];
  readonly #slots: Slot[] = [];
  /** Operands of the step that is being made: not to be freed to make room for the next one. */
  readonly #held = new Set<Slot>();
  #liveBytes = 0;
  #reads: Promise<void>[] = [];
  #replay: (() => void | Promise<void>)[] = [];

  private constructor(backend: ComputeBackend, seed: number, limits: WalkLimits, tally: Tally) {
    this.tally = tally;
    this.#backend = backend;
    this.#oracle = new Oracle(backend.capabilities.numerics);
    this.#twin = createBackend(this.#oracle);
    this.#limits = limits;
    this.#dice = makeDice(random(seed));
    const has = (name: OperationName, dtype: FloatType) => backend.supports(name, { dtype });
    this.#operations = operationNames.flatMap((name) =>
      floatTypes.filter((dtype) => has(name, dtype)).map((dtype) => ({ name, dtype })),
    );
  }

  /** `backend` must be initialised; `tally` is counted on. */
  static async start(backend: ComputeBackend, seed: number, limits: WalkLimits, tally: Tally): Promise<Walk> {
    const walk = new Walk(backend, seed, limits, tally);
    await walk.#twin.init();
    return walk;
  }

  /** Enqueues steps at random. */
  round(steps: number): Round {
    for (let i = 0; i < steps; i++) {
      this.#step();
      this.#held.clear();
    }
    return this.#finish();
  }

  /** Frees all that is live, and closes the oracle once the round has been verified. */
  end(): Round {
    while (this.#slots.length > 0) this.#free(this.#slots[0]!);
    const { verify } = this.#finish();
    return {
      verify: async () => {
        await verify();
        await this.#twin.dispose();
      },
    };
  }

  #finish(): Round {
    for (const slot of this.#slots) slot.fetch?.();
    const [reads, replay] = [this.#reads, this.#replay];
    this.#reads = [];
    this.#replay = [];
    return {
      async verify() {
        await Promise.all(reads);
        for (const step of replay) await step();
      },
    };
  }

  #step(): void {
    const choice = this.#dice.next();
    if (this.#operations.length > 0 && choice < 0.55) this.#operate();
    else if (choice < 0.63) this.#allocate(this.#dice.size(this.#limits.largestBytes));
    else if (choice < 0.72) this.#writeBytes();
    else if (choice < 0.81) this.#copyBytes();
    else if (choice < 0.86) this.#fill();
    else if (choice < 0.94) this.#readBytes();
    else this.#free(this.#any());
  }

  #any(): Slot {
    return this.#slots.length > 0 ? this.#dice.pick(this.#slots) : this.#allocate(this.#dice.size(4096));
  }

  // Memory

  #allocate(bytes: number): Slot {
    const { allocations, liveBytes } = this.#limits;
    while (this.#slots.length >= allocations || this.#liveBytes + bytes > liveBytes) {
      const idle = this.#slots.filter((slot) => !this.#held.has(slot));
      if (idle.length === 0) break;
      this.#free(this.#dice.pick(idle));
    }
    const zero = this.#dice.next() < 0.5;
    const handle = this.#backend.alloc(bytes, { zero });
    this.#count("alloc");
    const slot: Slot = { handle, bytes, content: undefined, fetch: undefined, twin: undefined };
    this.#slots.push(slot);
    this.#liveBytes += bytes;
    this.#replay.push(() => {
      slot.twin = this.#twin.alloc(bytes);
    });
    // Bytes that nobody has promised are not to be compared with anything.
    if (!zero) this.#write(slot, 0, this.#bytes(bytes));
    return slot;
  }

  #free(slot: Slot): void {
    slot.fetch?.();
    this.#slots.splice(this.#slots.indexOf(slot), 1);
    this.#liveBytes -= slot.bytes;
    this.#backend.free(slot.handle);
    this.#count("free");
    this.#replay.push(() => this.#twin.free(slot.twin!));
  }

  #write(slot: Slot, byteOffset: number, bytes: Uint8Array<ArrayBuffer>): void {
    this.#overwrite(slot, byteOffset, bytes.length);
    const source = bytes.slice();
    this.#backend.copyHtoD({ handle: slot.handle, byteOffset }, source);
    // The source belongs to the caller again.
    source.fill(0x99);
    this.#count("copyHtoD");
    this.tally.uploadedBytes += bytes.length;
    this.#replay.push(() => this.#twin.copyHtoD({ handle: slot.twin!, byteOffset }, bytes));
  }

  #writeBytes(): void {
    const slot = this.#any();
    const [byteOffset, length] = this.#part(slot.bytes);
    this.#write(slot, byteOffset, this.#bytes(length));
  }

  #copyBytes(): void {
    const [from, to] = [this.#any(), this.#any()];
    const [byteOffset, room] = this.#part(from.bytes);
    const length = Math.min(room, to.bytes);
    const place = this.#dice.below(to.bytes - length + 1);
    if (from === to && Math.abs(place - byteOffset) < length) return;
    // Numbers are numbers elsewhere too.
    const content = from.content === undefined ? undefined : moved(from.content, byteOffset, place, length);
    this.#overwrite(to, place, length);
    this.#backend.copyDtoD(
      { handle: to.handle, byteOffset: place },
      { handle: from.handle, byteOffset },
      length,
    );
    this.#count("copyDtoD");
    this.#replay.push(() =>
      this.#twin.copyDtoD(
        { handle: to.twin!, byteOffset: place },
        { handle: from.twin!, byteOffset },
        length,
      ),
    );
    if (content !== undefined) to.content = content;
  }

  #fill(): void {
    const slot = this.#any();
    const dtype = this.#dice.pick(dtypes);
    const size = dtypeBytes[dtype];
    const [first, count] = this.#part(Math.floor(slot.bytes / size));
    if (count === 0) return;
    const byteOffset = first * size;
    const value = this.#dice.below(200) + (elementTypes[dtype].range === undefined ? 0.5 : 0);
    this.#overwrite(slot, byteOffset, count * size);
    this.#backend.fill({ handle: slot.handle, byteOffset }, value, count, dtype);
    this.#count("fill");
    this.#replay.push(() => this.#twin.fill({ handle: slot.twin!, byteOffset }, value, count, dtype));
  }

  #readBytes(): void {
    const slot = this.#any();
    const [byteOffset, length] = this.#part(slot.bytes);
    const got = this.#read(slot, byteOffset, length);
    this.#replay.push(async () => {
      const expected = new Uint8Array(length);
      await this.#twin.copyDtoH(expected, { handle: slot.twin!, byteOffset });
      this.#judge(length, () => sameBytes(got, expected, `copyDtoH of ${length} bytes at ${byteOffset}`));
    });
  }

  #read(slot: Slot, byteOffset: number, length: number): Uint8Array<ArrayBuffer> {
    const got = new Uint8Array(length);
    const read = this.#backend.copyDtoH(got, { handle: slot.handle, byteOffset });
    // Until `verify` looks at it, nobody has to handle a failure.
    read.catch(() => {});
    this.#reads.push(read);
    this.#count("copyDtoH");
    this.tally.downloadedBytes += length;
    return got;
  }

  /** Some bytes are about to change: reads any result of an operation there first. */
  #overwrite(slot: Slot, byteOffset: number, length: number): void {
    slot.fetch?.();
    if (slot.content !== undefined && touches(slot.content, byteOffset, length)) slot.content = undefined;
  }

  /** Returns the start and length of a random part of `length` bytes or elements. */
  #part(length: number): [start: number, length: number] {
    if (length === 0 || this.#dice.next() < 0.2) return [0, length];
    const count = this.#dice.size(length);
    return [this.#dice.below(length - count + 1), count];
  }

  #bytes(length: number): Uint8Array<ArrayBuffer> {
    const words = new Uint32Array(Math.ceil(length / 4));
    const seed = this.#dice.below(2 ** 32);
    for (let i = 0; i < words.length; i++) words[i] = Math.imul(i + seed, 0x9e3779b1);
    return new Uint8Array(words.buffer, 0, length);
  }

  // Operations

  #operate(): void {
    const { name, dtype } = this.#dice.pick(this.#operations);
    const draft = testedOperations[name].draft(this.#dice, this.#limits, dtype);
    const { rest, types = {}, inputTypes = {}, integers = {}, keepsOutputs = false, inPlace } = draft;
    if (!this.#backend.supports(name, questionOf(draft, name, dtype))) return;
    const callType = typeOf(draft, dtype);
    const operands: Record<string, Location> = {};
    for (const [argument, count] of Object.entries(draft.inputs))
      operands[argument] =
        integers[argument] === undefined
          ? this.#input(inputTypes[argument] ?? callType, count)
          : this.#integers(count, integers[argument], types[argument] ?? "i32");
    const outputs: Record<string, Location> = {};
    for (const [i, [argument, count]] of Object.entries(draft.outputs).entries()) {
      const isOver = i === 0 && inPlace !== undefined;
      const type = types[argument] ?? callType;
      const place = isOver
        ? operands[inPlace]!
        : keepsOutputs
          ? this.#fresh(type, count)
          : this.#output(type, count);
      outputs[argument] = place;
      // The next output must not lie over this one, nor make room for itself there.
      this.#held.add(place.slot);
    }
    Object.assign(operands, outputs);
    const ranges = Object.entries(operands).map(([argument, location]) => [argument, location.range]);
    const range = wholeRange(callType) ?? draft.range(Object.fromEntries(ranges) as Record<string, Range>);
    // The type could not hold the result.
    if (range === undefined || (isFloat(callType) && magnitude(range) > floatFormats[callType].largest / 2))
      return;
    if (inPlace !== undefined) operands[inPlace]!.slot.fetch?.();
    this.#call(name, { rest, types }, operands, outputs, range);
  }

  /** Returns input numbers: results of an operation, possibly of the last one, or new numbers. */
  #input(dtype: DType, count: number): Location {
    const size = dtypeBytes[dtype];
    const whole = wholeRange(dtype);
    const found = this.#slots.filter(
      ({ content }) =>
        content !== undefined &&
        content.dtype === dtype &&
        content.count >= count &&
        (whole !== undefined || isUsable(content.range)),
    );
    if (found.length > 0 && this.#dice.next() < 0.8) {
      const slot = this.#dice.pick(found);
      this.#held.add(slot);
      const { byteOffset, range, count: most } = slot.content!;
      return { slot, byteOffset: byteOffset + size * this.#dice.below(most - count + 1), count, range };
    }
    if (whole !== undefined) {
      // Few numbers are often 0 and equal to each other, and small ones distances of shifts.
      const [few, small] = [2, 40].map((high) => ({ low: Math.max(whole.low, -2), high }));
      return this.#integers(count, this.#dice.pick([few!, small!, whole]), dtype);
    }
    const before = size * this.#dice.below(6);
    const slot = this.#allocate(before + (count + this.#dice.below(6)) * size);
    this.#held.add(slot);
    // Not so fine that products of them fall below the normal numbers of f16.
    const low = this.#dice.pick([-2, -1, 0.125]);
    const values = Float32Array.from({ length: count }, () => low + this.#dice.below(257) / 128);
    this.#write(slot, before, encoded(values, dtype));
    slot.content = { dtype, byteOffset: before, count, range: { low, high: low + 2 } };
    return { slot, byteOffset: before, count, range: slot.content.range };
  }

  /** Returns new whole numbers. */
  #integers(count: number, range: Range, dtype: DType): Location {
    const slot = this.#allocate(count * dtypeBytes[dtype]);
    this.#held.add(slot);
    const values = Float64Array.from(
      { length: count },
      () => range.low + this.#dice.below(range.high - range.low + 1),
    );
    this.#write(slot, 0, encoded(values, dtype));
    return { slot, byteOffset: 0, count, range };
  }

  /** Returns a place for a result: over anything that is not an input, or in new memory. */
  #output(dtype: DType, count: number): Location {
    const size = dtypeBytes[dtype];
    const fits = this.#slots.filter((slot) => !this.#held.has(slot) && slot.bytes >= count * size);
    if (fits.length === 0 || this.#dice.next() < 0.5) return this.#fresh(dtype, count);
    const slot = this.#dice.pick(fits);
    const byteOffset = size * this.#dice.below(Math.floor(slot.bytes / size) - count + 1);
    this.#overwrite(slot, byteOffset, count * size);
    return { slot, byteOffset, count, range: within(0) };
  }

  /** New memory full of known numbers. */
  #fresh(dtype: DType, count: number): Location {
    const slot = this.#allocate(count * dtypeBytes[dtype]);
    const values = Float32Array.from({ length: count }, () => this.#dice.below(65) / 32 - 1);
    this.#write(slot, 0, encoded(values, dtype));
    return { slot, byteOffset: 0, count, range: within(1) };
  }

  #call(
    name: OperationName,
    { rest, types = {} }: Pick<Draft, "rest" | "types">,
    operands: Readonly<Record<string, Location>>,
    outputs: Readonly<Record<string, Location>>,
    range: Range,
  ): void {
    const invoke = (backend: ComputeBackend, handleOf: (slot: Slot) => DeviceHandle) => {
      const places = Object.entries(operands).map(([argument, location]): [string, Operand] => [
        argument,
        { handle: handleOf(location.slot), byteOffset: location.byteOffset },
      ]);
      const method = backend[name].bind(backend) as (args: unknown) => void;
      method(argumentsOf({ ...rest, ...Object.fromEntries(places) }));
    };
    invoke(this.#backend, ({ handle }) => handle);
    this.#count(name);
    const answers: Record<string, Uint8Array<ArrayBuffer>> = {};
    for (const [argument, { slot, byteOffset, count }] of Object.entries(outputs)) {
      const dtype = types[argument] ?? (rest.dtype as DType);
      slot.content = { dtype, byteOffset, count, range };
      slot.fetch = () => {
        slot.fetch = undefined;
        answers[argument] = this.#read(slot, byteOffset, count * dtypeBytes[dtype]);
      };
    }
    this.#replay.push(() => {
      this.#oracle.answers = answers;
      invoke(this.#twin, ({ twin }) => twin!);
      const { checked, complaint, skipped } = this.#oracle.verdict;
      if (skipped) this.tally.skipped++;
      else
        this.#judge(checked, () => {
          if (complaint !== undefined) throw new Error(`${name} ${JSON.stringify(rest)}: ${complaint}`);
        });
    });
  }

  #count(call: string): void {
    this.tally.calls[call] = (this.tally.calls[call] ?? 0) + 1;
  }

  #judge(elements: number, compare: () => void): void {
    const { tally } = this;
    tally.results++;
    tally.elements += elements;
    try {
      compare();
    } catch (error) {
      tally.wrong++;
      if (tally.complaints.length < complaintsKept) tally.complaints.push((error as Error).message);
    }
  }
}

/** What a backend has to have for a draft. */
function questionOf({ rest, inputs }: Draft, name: OperationName, dtype: FloatType): Question {
  const asked = testedOperations[name].operation.decisive.map(({ argument }) => [
    argument,
    argument in inputs ? true : rest[argument],
  ]);
  return { ...Object.fromEntries(asked), dtype: typeOf({ rest }, dtype) };
}

/** Returns the element type of a call that was drawn for another one. */
function typeOf({ rest }: Pick<Draft, "rest">, dtype: FloatType): DType {
  return (rest.dtype as DType | undefined) ?? dtype;
}

function isFloat(dtype: DType): dtype is FloatType {
  return dtype in floatFormats;
}

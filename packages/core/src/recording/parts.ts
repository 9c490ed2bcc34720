import { checkedOffset, withHandle } from "../arguments.js";
import { isOperand } from "../entries.js";
import { BackendError } from "../errors.js";
import { type DeviceHandle, describe, type Operand } from "../handles.js";
import { checkNames } from "../names.js";
import { Checks } from "../ops/checks.js";
import { forEachHandle, nameOf, type RecordedCall, withOperands } from "./calls.js";
import type { Recording, RunChanges, Vary } from "./recording.js";

/** The operation that errors of a run name. */
export const RUN = "Recording.run";

/** One recorded call, or the calls of a part that varies. */
export interface Part<Values extends object = object> {
  /** Makes the calls of a part that varies. */
  readonly vary: ((values: Values) => void) | undefined;
  /** As recorded, for the present values. */
  calls: readonly RecordedCall[];
  /** What the player found when it checked `calls`, until they are planned. */
  findings: Findings | undefined;
  /** The first use of each handle in `calls`. */
  uses: ReadonlyMap<DeviceHandle, Use>;
  /** The calls with the operands of the present run. */
  bound: readonly RecordedCall[];
  /** The first use of each handle in them, if they are other calls. */
  boundUses: ReadonlyMap<DeviceHandle, Use>;
  isPlanned: boolean;
}

/** What a player has found out about calls, and `Player.ended` at that time: later it may not hold any more. */
interface Findings {
  readonly ended: number | undefined;
  readonly ofCalls: unknown[];
}

interface Use {
  readonly operation: string;
  readonly argument: string;
}

type Bindings = ReadonlyMap<DeviceHandle, Operand>;
const noBindings: Bindings = new Map();
const noUses: Part["uses"] = new Map();

/** The means by which one kind of backend carries out recordings. */
export interface Player {
  /** Throws if calls cannot be made now. */
  assertOpen(operation: string): void;
  /**
   * Runs `body`. Meanwhile calls of the backend are checked and go to `add`, with what was found out about them, and
   * calls that cannot be recorded throw.
   */
  collect(body: () => void, add: Collected): void;
  /**
   * Checks the calls of the part at a place, and prepares them.
   *
   * @param findings of `collect`, if they still hold: then the calls are checked
   */
  plan(place: number, calls: readonly RecordedCall[], findings: readonly unknown[] | undefined): void;
  /** Changes whenever handles have ended. Undefined: unknown. */
  readonly ended: number | undefined;
  /** Throws unless the handle is live. */
  assertLive(handle: DeviceHandle, operation: string, argument: string): void;
  /** Enqueues all parts, which are planned. */
  play(parts: readonly Part[], operands: Bindings, values: object): void;
  dispose(): void;
}

/** Takes a call that was checked, and what a plan of it can use. */
export type Collected = (call: RecordedCall, finding: unknown) => void;

/** Calls and what was found out about them. */
interface Collection {
  readonly calls: RecordedCall[];
  readonly findings: Findings;
}

function newCollection({ ended }: Player): Collection {
  return { calls: [], findings: { ended, ofCalls: [] } };
}

function addTo({ calls, findings }: Collection, call: RecordedCall, finding: unknown): void {
  calls.push(call);
  findings.ofCalls.push(finding);
}

/** Records the calls that `body` makes. */
export function record<Values extends object>(
  player: Player,
  body: (vary: Vary<Values>) => void,
  values: Values = {} as Values,
): Recording<Values> {
  player.assertOpen("record");
  const checks = new Checks("record");
  if (typeof body !== "function") checks.fail("body", `is ${describe(body)}; allowed: a function`);
  checks.object("values", values);
  const initial = { ...values };
  const parts: Part<Values>[] = [];
  let target: Collection | undefined;
  let isOver = false;
  const vary: Vary<Values> = (part) => {
    if (typeof part !== "function") checks.fail("part", `is ${describe(part)}; allowed: a function`);
    if (target !== undefined) checks.fail("part", "is inside another part that varies");
    if (isOver) checks.fail("part", "comes after the end of record()");
    target = newCollection(player);
    try {
      callBody(() => part({ ...initial }));
      parts.push(newPart(part, target));
    } finally {
      target = undefined;
    }
  };
  try {
    player.collect(
      () => callBody(() => body(vary)),
      (call, finding) => {
        const collection = target ?? newCollection(player);
        addTo(collection, call, finding);
        if (target === undefined) parts.push(newPart(undefined, collection));
      },
    );
  } finally {
    isOver = true;
  }
  // The body may have disposed of the backend.
  player.assertOpen("record");
  const recording = new PlannedRecording(player, parts, initial);
  recording.plan();
  return recording;
}

/** Calls after the first await of an asynchronous function would not be recorded. */
function callBody(body: () => unknown): void {
  const result = body();
  if (typeof (result as Partial<Promise<void>> | undefined)?.then !== "function") return;
  (result as Promise<void>).then(undefined, () => {});
  new Checks("record").fail("body", "returned a promise; allowed: functions that end before they return");
}

function newPart<Values extends object>(
  vary: Part<Values>["vary"],
  { calls, findings }: Collection,
): Part<Values> {
  return {
    ...{ vary, calls, findings, uses: usesOf(calls), bound: calls, boundUses: noUses, isPlanned: false },
  };
}

/** Plans parts when they have changed, and has them played. */
class PlannedRecording<Values extends object> implements Recording<Values> {
  readonly #player: Player;
  readonly #parts: Part<Values>[];
  readonly #initial: Values;
  /** Those that the parts were made with; undefined if that failed. */
  #values: Values | undefined;
  #operands: Bindings = noBindings;
  /** `Player.ended` when all handles were last seen to be live. */
  #seen: number | undefined;
  #isPlanned = false;
  #isDisposed = false;

  constructor(player: Player, parts: Part<Values>[], initial: Values) {
    this.#player = player;
    this.#parts = parts;
    this.#initial = initial;
    this.#values = initial;
  }

  run(changes?: RunChanges<Values>): void {
    const player = this.#player;
    player.assertOpen(RUN);
    if (this.#isDisposed)
      throw new BackendError("DISPOSED", `${RUN}: the recording was disposed of`, { operation: RUN });
    if (changes !== undefined || this.#values !== this.#initial || this.#operands !== noBindings)
      this.#change(changes ?? {});
    if (!this.#isPlanned) this.plan();
    this.#assertLive();
    player.play(this.#parts as Part[], this.#operands, this.#values!);
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#parts.length = 0;
    this.#player.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Plans the parts that have changed. */
  plan(): void {
    for (const [place, part] of this.#parts.entries()) {
      if (part.isPlanned) continue;
      const operands = this.#operands;
      const { calls, findings } = part;
      const isBound = operands.size > 0 && calls.length > 0;
      part.bound = isBound ? calls.map((call) => bind(call, operands)) : calls;
      part.boundUses = isBound ? usesOf(part.bound) : noUses;
      const { ended } = this.#player;
      const holds = !isBound && findings !== undefined && ended !== undefined && findings.ended === ended;
      this.#player.plan(place, part.bound, holds ? findings.ofCalls : undefined);
      part.findings = undefined;
      part.isPlanned = true;
      // Planning looks up the operands of the calls, but not those that they replace.
      if (isBound) this.#seen = undefined;
    }
    this.#isPlanned = true;
  }

  #change(changes: RunChanges<Values>): void {
    checkNames(RUN, changes, ["operands", "values"]);
    const { operands = noBindings, values } = changes;
    const checks = new Checks(RUN);
    if (!(operands instanceof Map)) checks.fail("operands", `is ${describe(operands)}; allowed: a Map`);
    let wanted = this.#initial;
    if (values !== undefined) {
      checkNames(RUN, values, Object.keys(this.#initial) as never[], "values");
      wanted = { ...wanted, ...values };
    }
    if (this.#values === undefined || !sameValues(this.#values, wanted)) this.#makeAgain(wanted);
    for (const [handle, operand] of operands) {
      if (!this.#parts.some((part) => part.uses.has(handle)))
        checks.fail("operands", `has ${describe(handle)}; allowed: handles that recorded calls use`);
      // The calls would find the sum of its offset and theirs, or the recorded operand if it is undefined.
      if (!isOperand(operand)) this.#player.assertLive(operand, RUN, "operands");
      else if (typeof operand === "object") checkedOffset(RUN, "operands", operand, 1);
    }
    this.#rebind(operands);
  }

  /** Makes the calls of the parts that vary again. */
  #makeAgain(values: Values): void {
    const parts = this.#parts.filter(({ vary }) => vary !== undefined);
    this.#values = undefined;
    for (const part of parts) {
      const collection = newCollection(this.#player);
      this.#player.collect(
        () => callBody(() => part.vary!({ ...values })),
        (call, finding) => addTo(collection, call, finding),
      );
      Object.assign(part, newPart(part.vary, collection));
      this.#isPlanned = false;
    }
    this.#values = sameValues(values, this.#initial) ? this.#initial : values;
    this.#player.assertOpen(RUN);
  }

  #rebind(operands: Bindings): void {
    const before = this.#operands;
    const changed = [...new Set([...before.keys(), ...operands.keys()])].filter(
      (handle) => !samePlace(before.get(handle), operands.get(handle)),
    );
    if (changed.length > 0)
      for (const part of this.#parts)
        if (changed.some((handle) => part.uses.has(handle))) {
          part.isPlanned = false;
          this.#isPlanned = false;
        }
    // The caller may change both the map and its slices.
    this.#operands =
      operands.size === 0
        ? noBindings
        : new Map(Array.from(operands, ([handle, operand]) => [handle, placeOf(operand)]));
  }

  #assertLive(): void {
    const { ended } = this.#player;
    if (ended !== undefined && ended === this.#seen) return;
    for (const { uses, boundUses } of this.#parts)
      for (const some of [uses, boundUses])
        for (const [handle, { operation, argument }] of some)
          this.#player.assertLive(handle, operation, argument);
    this.#seen = ended;
  }
}

function usesOf(calls: readonly RecordedCall[]): ReadonlyMap<DeviceHandle, Use> {
  const uses = new Map<DeviceHandle, Use>();
  for (const call of calls) {
    const operation = nameOf(call);
    forEachHandle(call, (handle, argument) => {
      if (!uses.has(handle)) uses.set(handle, { operation, argument });
    });
  }
  return uses;
}

function bind(call: RecordedCall, operands: Bindings): RecordedCall {
  return withOperands(call, (_, operand) => boundTo(operand, operands));
}

/** Returns the operand that takes the place of a recorded one. */
function boundTo(operand: Operand, operands: Bindings): Operand {
  const isSlice = typeof operand === "object";
  const other = operands.get(isSlice ? operand.handle : operand);
  if (other === undefined) return operand;
  if (!isSlice) return other;
  const { byteOffset } = operand;
  return typeof other === "object"
    ? { handle: other.handle, byteOffset: byteOffset + other.byteOffset }
    : { handle: other, byteOffset };
}

/** A copy of an operand, whose properties may be getters of a class. */
function placeOf(operand: Operand): Operand {
  return withHandle(operand, (handle) => handle);
}

function samePlace(a: Operand | undefined, b: Operand | undefined): boolean {
  if (typeof a !== "object" || typeof b !== "object") return Object.is(a, b);
  return a.handle === b.handle && a.byteOffset === b.byteOffset;
}

function sameValues(a: object, b: object): boolean {
  const [one, other] = [a, b] as readonly Readonly<Record<string, unknown>>[];
  return Object.keys(one!).every((name) => Object.is(one![name], other![name]));
}

import { type Code, raw, unsigned, type ValueType, valueTypeCodes, vector } from "./encoding.js";
import { type Arg, memoryArgument, operand, simd, type Value } from "./expressions.js";
import { i32 } from "./scalars.js";
import { f32x4, f64x2, v128 } from "./vectors.js";

/** A local variable. Used as a value, it is read. */
export interface Local<Type extends ValueType = ValueType> extends Value<Type> {
  readonly index: number;
}

/** A place to branch to from a `block`, `loop` or `if` (for a loop: its beginning). */
export interface Label {
  readonly depth: number;
}

export interface Signature {
  readonly parameters: readonly ValueType[];
  readonly result: ValueType | undefined;
}

/** A function of the module being built, which other functions may call. */
export interface FunctionReference {
  readonly index: number;
  readonly signature: Signature;
}

export interface RangeOptions {
  /** Added to the counter after each round; at least 1. Default: 1. */
  readonly step?: number | Value<"i32">;
  /** Compare as signed numbers. Default: false, because addresses and counts may pass 2^31. */
  readonly signed?: boolean;
}

const blockWithoutResult = 0x40;
const opcodes = {
  unreachable: raw(0x00),
  block: raw(0x02, blockWithoutResult),
  loop: raw(0x03, blockWithoutResult),
  if: raw(0x04, blockWithoutResult),
  else: raw(0x05),
  end: raw(0x0b),
  br: raw(0x0c),
  brIf: raw(0x0d),
  return: raw(0x0f),
  call: raw(0x10),
  localGet: raw(0x20),
  localSet: raw(0x21),
  store8: raw(0x3a),
  store16: raw(0x3b),
  memoryCopy: raw(0xfc, 0x0a, 0, 0),
  memoryFill: raw(0xfc, 0x0b, 0),
};
const storeOpcodes: Readonly<Record<ValueType, Code>> = {
  i32: raw(0x36),
  i64: raw(0x37),
  f32: raw(0x38),
  f64: raw(0x39),
  v128: raw(0xfd, 0x0b),
};
const storeLaneOpcodes = { 8: simd(0x58), 16: simd(0x59), 32: simd(0x5a), 64: simd(0x5b) };

/** The body of one function, written statement by statement. */
export class FunctionBuilder {
  readonly #parameters: number;
  /** Whether `multiplyAdd`, `multiplySubtract` and `choose` may be the faster relaxed instructions. */
  readonly relaxedSimd: boolean;
  readonly #localTypes: ValueType[] = [];
  #body: Code = "";
  #depth = 0;

  constructor(parameters: number, relaxedSimd: boolean) {
    this.#parameters = parameters;
    this.relaxedSimd = relaxedSimd;
  }

  /** a * b + c on f32x4: fused, and so rounded once, if the engine and the machine can do that. */
  multiplyAdd(a: Value<"v128">, b: Value<"v128">, c: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? f32x4.relaxedMadd(a, b, c) : f32x4.add(f32x4.mul(a, b), c);
  }

  /** c - a * b on f32x4, likewise. */
  multiplySubtract(a: Value<"v128">, b: Value<"v128">, c: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? f32x4.relaxedNmadd(a, b, c) : f32x4.sub(c, f32x4.mul(a, b));
  }

  /** a * b + c on f64x2, likewise. */
  multiplyAdd64(a: Value<"v128">, b: Value<"v128">, c: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? f64x2.relaxedMadd(a, b, c) : f64x2.add(f64x2.mul(a, b), c);
  }

  /** Declares a local variable (zero at first). */
  local<Type extends ValueType>(type: Type): Local<Type> {
    const index = this.#parameters + this.#localTypes.push(type) - 1;
    return { type, index, code: opcodes.localGet + unsigned(index) };
  }

  /** Declares a local variable and sets it: evaluates an expression once. */
  let<Type extends ValueType>(value: Value<Type>): Local<Type> {
    const local = this.local(value.type);
    this.#body += value.code + opcodes.localSet + unsigned(local.index);
    return local;
  }

  /** local = value */
  set<Type extends ValueType>(local: Local<Type>, value: Arg<NoInfer<Type>>): void {
    this.#body += operand(local.type, value).code + opcodes.localSet + unsigned(local.index);
  }

  /** local += value, for i32 */
  add(local: Local<"i32">, value: Arg<"i32">): void {
    this.set(local, i32.add(local, value));
  }

  /**
   * Returns lanes of `a` where the mask is all ones, and of `b` where it is all zeros. The mask is the result
   * of a comparison of 32 or 64 bits.
   */
  choose(a: Value<"v128">, b: Value<"v128">, mask: Value<"v128">): Value<"v128"> {
    return this.relaxedSimd ? v128.relaxedLaneselect(a, b, mask) : v128.bitselect(a, b, mask);
  }

  // Memory

  /** Stores at `address + offset`; an i32, f32, f64 or v128 by its type. */
  store(address: Arg<"i32">, value: Value, offset = 0): void {
    this.#store(address, value, storeOpcodes[value.type] + memoryArgument(offset));
  }

  store8(address: Arg<"i32">, value: Arg<"i32">, offset = 0): void {
    this.#store(address, operand("i32", value), opcodes.store8 + memoryArgument(offset));
  }

  store16(address: Arg<"i32">, value: Arg<"i32">, offset = 0): void {
    this.#store(address, operand("i32", value), opcodes.store16 + memoryArgument(offset));
  }

  /** Stores one lane of 8, 16, 32 or 64 bits. */
  storeLane(
    bits: 8 | 16 | 32 | 64,
    lane: number,
    address: Arg<"i32">,
    value: Value<"v128">,
    offset = 0,
  ): void {
    this.#store(address, value, storeLaneOpcodes[bits] + memoryArgument(offset) + raw(lane));
  }

  #store(address: Arg<"i32">, value: Value, instruction: Code): void {
    this.#body += operand("i32", address).code + value.code + instruction;
  }

  /** Copies bytes; the regions may overlap. */
  memoryCopy(destination: Arg<"i32">, source: Arg<"i32">, bytes: Arg<"i32">): void {
    const operands = [destination, source, bytes].map((part) => operand("i32", part).code);
    this.#body += operands.join("") + opcodes.memoryCopy;
  }

  /** Sets each of `bytes` bytes to the low byte of `value`. */
  memoryFill(destination: Arg<"i32">, value: Arg<"i32">, bytes: Arg<"i32">): void {
    const operands = [destination, value, bytes].map((part) => operand("i32", part).code);
    this.#body += operands.join("") + opcodes.memoryFill;
  }

  // Control

  /** Runs the body once; branching to the label leaves it. */
  block(body: (exit: Label) => void): void {
    this.#structured(opcodes.block, body);
  }

  /** Runs the body; branching to the label starts it again, reaching its end leaves it. */
  loop(body: (again: Label) => void): void {
    this.#structured(opcodes.loop, body);
  }

  if(condition: Arg<"i32">, then: (exit: Label) => void, otherwise?: (exit: Label) => void): void {
    this.#body += operand("i32", condition).code + opcodes.if;
    this.#depth++;
    const label = { depth: this.#depth };
    then(label);
    if (otherwise) {
      this.#body += opcodes.else;
      otherwise(label);
    }
    this.#depth--;
    this.#body += opcodes.end;
  }

  br(label: Label): void {
    this.#body += opcodes.br + unsigned(this.#depth - label.depth);
  }

  brIf(label: Label, condition: Arg<"i32">): void {
    this.#body += operand("i32", condition).code + opcodes.brIf + unsigned(this.#depth - label.depth);
  }

  return(value?: Value): void {
    this.#body += (value?.code ?? "") + opcodes.return;
  }

  unreachable(): void {
    this.#body += opcodes.unreachable;
  }

  /** for (let i = start; i < end; i += step) body(i). `end` and `step` are evaluated each round. */
  forRange(
    start: Arg<"i32">,
    end: Arg<"i32">,
    body: (i: Local<"i32">) => void,
    options: RangeOptions = {},
  ): void {
    const counter = this.let(operand("i32", start));
    this.forLocal(counter, end, () => body(counter), options);
  }

  /** `forRange` on a counter of the caller, which starts from its present value and keeps the last one. */
  forLocal(counter: Local<"i32">, end: Arg<"i32">, body: () => void, options: RangeOptions = {}): void {
    const within = options.signed ? i32.ltS(counter, end) : i32.ltU(counter, end);
    // The condition is at the end of the loop, so that one branch both tests and repeats.
    this.if(within, () => {
      this.loop((again) => {
        body();
        this.add(counter, options.step ?? 1);
        this.brIf(again, within);
      });
    });
  }

  /** while (condition) body() */
  while(condition: Value<"i32">, body: () => void): void {
    this.if(condition, () => {
      this.loop((again) => {
        body();
        this.brIf(again, condition);
      });
    });
  }

  /** Calls a function that returns nothing. */
  call(callee: FunctionReference, ...operands: readonly Arg<ValueType>[]): void {
    this.#body += callCode(callee, operands);
  }

  #structured(opening: Code, body: (label: Label) => void): void {
    this.#body += opening;
    this.#depth++;
    body({ depth: this.#depth });
    this.#depth--;
    this.#body += opcodes.end;
  }

  /** The finished body: its locals, in runs of one type, and its instructions. */
  code(result: Value | undefined): Code {
    const runs: { type: ValueType; count: number }[] = [];
    for (const type of this.#localTypes) {
      const last = runs.at(-1);
      if (last?.type === type) last.count++;
      else runs.push({ type, count: 1 });
    }
    const locals = runs.map((run) => unsigned(run.count) + raw(valueTypeCodes[run.type]));
    return vector(locals) + this.#body + (result?.code ?? "") + opcodes.end;
  }
}

/** The result of a function that returns a value. */
export function callValue<Type extends ValueType>(
  type: Type,
  callee: FunctionReference,
  ...operands: readonly Arg<ValueType>[]
): Value<Type> {
  if (callee.signature.result !== type)
    throw new TypeError(`function ${callee.index} returns ${callee.signature.result}, not ${type}`);
  return { type, code: callCode(callee, operands) };
}

function callCode(callee: FunctionReference, operands: readonly Arg<ValueType>[]): Code {
  const { parameters } = callee.signature;
  if (operands.length !== parameters.length)
    throw new TypeError(
      `function ${callee.index} takes ${parameters.length} operands, not ${operands.length}`,
    );
  const codes = operands.map((part, i) => operand(parameters[i]!, part).code);
  return codes.join("") + opcodes.call + unsigned(callee.index);
}

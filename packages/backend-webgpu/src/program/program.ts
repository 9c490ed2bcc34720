import { withNativePacking } from "./halves.wgsl.js";

/**
 * A compute shader with the declarations that the runtime needs to bind it. Two programs with the same
 * source share one pipeline.
 */
export interface Program<Binding extends string = string, Parameter extends string = string> {
  /** Shown in error messages and profiles, built from the choices made: `gemm_f32_64x64x16_8x8`. */
  readonly name: string;
  /** Whole WGSL text with the parameters in a uniform block; the entry point is `main`. See `sourceIn`. */
  readonly source: string;
  readonly bindings: readonly ProgramBinding<Binding>[];
  readonly parameters: readonly ProgramParameter<Parameter>[];
  /** Bytes of the parameter block. */
  readonly parameterBytes: number;
  /** The parameters are never immediates; see `ProgramDescription`. */
  readonly uniform: boolean;
  /** See `ProgramDescription`. */
  readonly light: boolean;
}

export interface ProgramBinding<Name extends string> extends Storage {
  readonly name: Name;
}

export interface ProgramParameter<Name extends string> {
  readonly name: Name;
  readonly type: ParameterType;
  /** First 32-bit word within the parameter block. */
  readonly word: number;
}

/** A storage buffer seen as `array<wgsl>`. */
export interface Storage {
  readonly wgsl: string;
  /** The unit of `<name>_offset`, in bytes. A region must start at a multiple of it. */
  readonly unit: number;
  readonly access: "read" | "read_write";
}

/** `u32`, `i32`, `f32`, or a table of `rows` vec4<u32>, whose value is a list of up to 4 * rows words. */
export type ParameterType = "u32" | "i32" | "f32" | { readonly rows: number };

/** How elements lie in a storage buffer. */
export const elementTypes = {
  f32: { wgsl: "f32", unit: 4 },
  u32: { wgsl: "u32", unit: 4 },
  i32: { wgsl: "i32", unit: 4 },
  /** Half-precision numbers, two to a word: index words with `offset + i >> 1`; see `halves.ts`. */
  half: { wgsl: "u32", unit: 2 },
  vec2f: { wgsl: "vec2<f32>", unit: 8 },
  vec2u: { wgsl: "vec2<u32>", unit: 8 },
  vec4f: { wgsl: "vec4<f32>", unit: 16 },
  vec4u: { wgsl: "vec4<u32>", unit: 16 },
  vec4i: { wgsl: "vec4<i32>", unit: 16 },
  /** Four half-precision numbers. */
  half4: { wgsl: "vec2<u32>", unit: 8 },
  /** Eight half-precision numbers. */
  half8: { wgsl: "vec4<u32>", unit: 16 },
  /** For programs with `enable f16`, which may write one half of a word. */
  f16: { wgsl: "f16", unit: 2 },
  /** Bytes, four to a word: index words with `offset + i >> 2`. */
  byte: { wgsl: "u32", unit: 1 },
} as const;

export type ElementType = keyof typeof elementTypes;

/** A binding that the shader only reads. */
export function input(type: ElementType): Storage {
  return { ...elementTypes[type], access: "read" };
}

/** A binding that the shader writes and may read. */
export function output(type: ElementType): Storage {
  return { ...elementTypes[type], access: "read_write" };
}

export interface ProgramDescription<Binding extends string, Parameter extends string> {
  readonly name: string;
  /** WGSL extensions to enable, such as `f16`. */
  readonly enable?: readonly string[];
  /** Other directives, each a whole statement, such as `diagnostic(off, derivative_uniformity);`. */
  readonly directives?: readonly string[];
  readonly bindings: Readonly<Record<Binding, Storage>>;
  readonly parameters: Readonly<Record<Parameter, ParameterType>>;
  /**
   * Keeps the parameters in a uniform block even if they would fit immediates. For kernels that are limited
   * by arithmetic: immediates save half a microsecond per dispatch, but such kernels compile to slower code
   * (the tiled product on an NVIDIA H200: 42 instead of 47 TFLOP/s).
   */
  readonly uniform?: boolean;
  /**
   * The time of a dispatch depends on its bytes alone, however much the operation around it computes. So
   * several of them fit into one submit with it.
   */
  readonly light?: boolean;
  /** Functions, constants and the entry point `main`. */
  readonly body: string;
}

/** How a program receives its parameters: see `ParameterRing` and `immediateBytes`. */
export type ParameterSpace = "uniform" | "immediate";

/** The block is bound after the buffers, in the same group: a second group would be a second call for each dispatch. */
const declarations: Readonly<Record<ParameterSpace, (bindings: readonly unknown[]) => string>> = {
  uniform: ({ length }) => `@group(0) @binding(${length}) var<uniform> parameters: Parameters;`,
  immediate: () => "var<immediate> parameters: Parameters;",
};

/** The language feature of WGSL that provides the space "immediate". */
export const IMMEDIATE_FEATURE = "immediate_address_space";

/** Returns the best space for a program on a device with this many bytes of immediates (0 if it has none). */
export function parameterSpace(program: Program, immediateBytes: number): ParameterSpace {
  // WGSL allows no arrays among immediates.
  const isFlat = program.parameters.every(({ type }) => typeof type !== "object");
  const fit = !program.uniform && isFlat && program.parameterBytes <= immediateBytes;
  return fit ? "immediate" : "uniform";
}

/** The name by which `disableFeatures` leaves pack2x16float unused. */
export const PACKING_FEATURE = "pack2x16float";

/** What a device has of WGSL, as far as the text of programs depends on it. */
export interface Dialect {
  /** See the function of that name. */
  readonly immediateBytes: number;
  /** See `packsExactly`. */
  readonly packsExactly: boolean;
}

/** The whole WGSL text with the parameters in this space, for a device that packs halves exactly, or any other. */
export function sourceIn(program: Program, space: ParameterSpace, packsExactly: boolean): string {
  const source = packsExactly ? withNativePacking(program.source) : program.source;
  if (space === "uniform") return source;
  const { uniform, immediate } = declarations;
  const text = source.replace(uniform(program.bindings), () => immediate(program.bindings));
  return `requires ${IMMEDIATE_FEATURE};\n${text}`;
}

/**
 * Writes the declarations in front of a shader body: `var<storage>` for each binding under its name,
 * and a uniform `parameters` with, for each binding, `<name>_offset` (start of the region within the
 * buffer, in units of the binding's element), followed by the parameters under their names.
 */
export function program<const Binding extends string, const Parameter extends string>(
  description: ProgramDescription<Binding, Parameter>,
): Program<Binding, Parameter> {
  const bindings = Object.entries<Storage>(description.bindings).map(([name, storage]) => ({
    name: name as Binding,
    ...storage,
  }));
  let word = bindings.length;
  const parameters = Object.entries<ParameterType>(description.parameters).map(([name, type]) => {
    const rows = typeof type === "object" ? type.rows : 0;
    // Arrays in a uniform block start at a multiple of 16 bytes.
    if (rows > 0) word = Math.ceil(word / 4) * 4;
    const parameter = { name: name as Parameter, type, word };
    word += rows > 0 ? 4 * rows : 1;
    return parameter;
  });
  const members = [
    ...bindings.map(({ name }) => `  ${name}_offset: u32,`),
    ...parameters.map(({ name, type }) => `  ${name}: ${parameterWgsl(type)},`),
  ];
  const source = [
    ...(description.enable ?? []).map((extension) => `enable ${extension};`),
    ...(description.directives ?? []),
    `struct Parameters {\n${members.join("\n")}\n}`,
    ...bindings.map(
      ({ name, access, wgsl }, i) =>
        `@group(0) @binding(${i}) var<storage, ${access}> ${name}: array<${wgsl}>;`,
    ),
    declarations.uniform(bindings),
    "",
    description.body.trim(),
    "",
  ].join("\n");
  const { name, uniform = false, light = false } = description;
  return { name, source, bindings, parameters, parameterBytes: Math.ceil(word / 4) * 16, uniform, light };
}

function parameterWgsl(type: ParameterType): string {
  return typeof type === "object" ? `array<vec4<u32>, ${type.rows}>` : type;
}

/** A step on the way through the arguments of a memoized function. */
interface Step<Result> {
  readonly next: Map<unknown, Step<Result>>;
  /** What was asked for last, and where it leads: names of entries are the same each time, and most values. */
  latest: unknown;
  after: Step<Result> | undefined;
  result?: { readonly value: Result };
}

/** Marks before and after the entries of an object. */
const start = Symbol("start");
const end = Symbol("end");

/**
 * Remembers the result of a generator for each list of arguments, so that text is generated once and equal
 * programs are identical objects. Objects among the arguments are compared by their entries in order, other
 * values by identity. A look-up makes no garbage, because it runs for every dispatch.
 */
export function memoized<Arguments extends readonly unknown[], Result>(
  generate: (...args: Arguments) => Result,
): (...args: Arguments) => Result {
  const first = step<Result>();
  return (...args) => {
    let at = first;
    for (let i = 0; i < args.length; i++) at = follow(at, args[i]);
    at.result ??= { value: generate(...args) };
    return at.result.value;
  };
}

function step<Result>(): Step<Result> {
  return { next: new Map(), latest: undefined, after: undefined };
}

function follow<Result>(from: Step<Result>, value: unknown): Step<Result> {
  if (typeof value === "object" && value !== null) {
    let at = follow(from, start);
    for (const key in value) at = follow(follow(at, key), (value as Record<string, unknown>)[key]);
    return follow(at, end);
  }
  if (from.after !== undefined && from.latest === value) return from.after;
  let next = from.next.get(value);
  if (next === undefined) {
    next = step();
    from.next.set(value, next);
  }
  from.latest = value;
  from.after = next;
  return next;
}

/**
 * Writes ONNX models: the messages of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), in
 * the wire format of Protocol Buffers, as far as a graph of a few nodes needs them.
 */

export type Attribute = number | string | readonly number[] | { readonly float: number };

/** Numbers of `TensorProto.DataType`, by the names that onnxruntime gives them. */
export const elementTypes = { float32: 1, uint8: 2, int32: 6, int64: 7, bool: 9, float16: 10 } as const;

export type ElementType = keyof typeof elementTypes;

export interface Node {
  readonly op: string;
  /** Who defines the operator. Default: ONNX. */
  readonly domain?: typeof microsoft;
  /** Names of tensors; "" leaves an optional one out. */
  readonly inputs: readonly string[];
  /** The name of the result, or the names of all. */
  readonly output: string | readonly string[];
  /** A number is an INT, a string a STRING, an array INTS, `{ float }` a FLOAT. */
  readonly attributes?: Readonly<Record<string, Attribute>>;
}

export interface Initializer {
  readonly shape: readonly number[];
  /** A Uint16Array has the bits of numbers in f16. */
  readonly data: Float32Array | BigInt64Array | Int32Array | Uint8Array | Uint16Array;
}

export interface Graph {
  readonly nodes: readonly Node[];
  /** Shapes by name. */
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  readonly outputs: Readonly<Record<string, readonly number[]>>;
  /** Element types of those inputs and outputs that are not f32. */
  readonly types?: Readonly<Record<string, ElementType>>;
  /** Tensors that are part of the model. */
  readonly initializers?: Readonly<Record<string, Initializer>>;
}

/** Version 23 is the first with Attention; Gelu is there since 20. */
export const newestOpset = 23;
const irVersion = 10;

/** The operators that onnxruntime adds, in the only version that there is of them. */
export const microsoft = "com.microsoft";
const microsoftVersion = 1;

/** Numbers of `AttributeProto.AttributeType`. */
const attributeTypes = { float: 1, int: 2, string: 3, ints: 7 } as const;

/** Parts of a message; joined once at the end, since initializers are large. */
type Parts = readonly Uint8Array[];

/** The bytes of an ONNX model with one graph. */
export function encodeModel(graph: Graph, opset: number = newestOpset): Uint8Array<ArrayBuffer> {
  const { types = {} } = graph;
  const values = (field: number, shapes: Graph["inputs"]) =>
    Object.entries(shapes).flatMap(([name, shape]) =>
      message(field, encodeValue(name, shape, types[name] ?? "float32")),
    );
  const parts = [
    integer(1, irVersion),
    ...message(8, [integer(2, opset)]),
    ...(graph.nodes.some(({ domain }) => domain === microsoft)
      ? message(8, [...string(1, microsoft), integer(2, microsoftVersion)])
      : []),
    ...message(7, [
      ...graph.nodes.flatMap((node) => message(1, encodeNode(node))),
      ...string(2, "graph"),
      ...Object.entries(graph.initializers ?? {}).flatMap(([name, tensor]) =>
        message(5, encodeInitializer(name, tensor)),
      ),
      ...values(11, graph.inputs),
      ...values(12, graph.outputs),
    ]),
  ];
  const bytes = new Uint8Array(sizeOf(parts));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function encodeNode({ op, domain, inputs, output, attributes = {} }: Node): Parts {
  return [
    ...inputs.flatMap((name) => string(1, name)),
    ...[output].flat().flatMap((name) => string(2, name)),
    ...string(4, op),
    ...(domain === undefined ? [] : string(7, domain)),
    ...Object.entries(attributes).flatMap(([name, value]) => message(5, encodeAttribute(name, value))),
  ];
}

function encodeAttribute(name: string, value: Attribute): Parts {
  if (typeof value === "number")
    return [...string(1, name), integer(3, value), integer(20, attributeTypes.int)];
  if (typeof value === "string")
    return [...string(1, name), ...string(4, value), integer(20, attributeTypes.string)];
  if ("float" in value) return [...string(1, name), float(2, value.float), integer(20, attributeTypes.float)];
  return [...string(1, name), ...value.map((one) => integer(8, one)), integer(20, attributeTypes.ints)];
}

function encodeInitializer(name: string, { shape, data }: Initializer): Parts {
  return [
    ...shape.map((extent) => integer(1, extent)),
    integer(2, elementTypes[elementTypeOf(data)]),
    ...string(8, name),
    ...bytes(9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
  ];
}

function elementTypeOf(data: Initializer["data"]): ElementType {
  if (data instanceof Float32Array) return "float32";
  if (data instanceof Uint16Array) return "float16";
  if (data instanceof Int32Array) return "int32";
  return data instanceof Uint8Array ? "uint8" : "int64";
}

/** A name with its type: a tensor, and its shape. */
function encodeValue(name: string, shape: readonly number[], type: ElementType): Parts {
  const dimensions = shape.flatMap((extent) => message(1, [integer(1, extent)]));
  return [
    ...string(1, name),
    ...message(2, message(1, [integer(1, elementTypes[type]), ...message(2, dimensions)])),
  ];
}

/** Wire types: 0 variable-length integer, 2 length and bytes, 5 four bytes. */
const tag = (field: number, wireType: 0 | 2 | 5): number[] => variableLength(field * 8 + wireType);

function integer(field: number, value: number): Uint8Array {
  return Uint8Array.from([...tag(field, 0), ...variableLength(value)]);
}

function float(field: number, value: number): Uint8Array {
  return Uint8Array.from([...tag(field, 5), ...new Uint8Array(Float32Array.of(value).buffer)]);
}

function bytes(field: number, content: Uint8Array): Parts {
  return message(field, [content]);
}

function string(field: number, content: string): Parts {
  return bytes(field, new TextEncoder().encode(content));
}

function message(field: number, parts: Parts): Parts {
  return [Uint8Array.from([...tag(field, 2), ...variableLength(sizeOf(parts))]), ...parts];
}

function sizeOf(parts: Parts): number {
  return parts.reduce((size, part) => size + part.length, 0);
}

/** Seven bits to a byte, the lowest first; the eighth says that more follow. Negative numbers as 64 bits. */
function variableLength(value: number): number[] {
  if (!Number.isSafeInteger(value)) throw new RangeError(`onnx: ${value} is no integer; allowed: integers`);
  const result: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) result.push(Number(rest & 127n) | 128);
  result.push(Number(rest));
  return result;
}

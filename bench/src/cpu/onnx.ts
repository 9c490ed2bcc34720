/**
 * Writes ONNX models: the messages of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), in
 * the wire format of Protocol Buffers, as far as a graph of a few nodes on f32 tensors needs them.
 */

export type Attribute = number | readonly number[] | { readonly float: number };

export interface Node {
  readonly op: string;
  /** Names of tensors; "" leaves an optional one out. */
  readonly inputs: readonly string[];
  readonly output: string;
  /** A number is an INT, an array INTS, `{ float }` a FLOAT. */
  readonly attributes?: Readonly<Record<string, Attribute>>;
}

export interface Initializer {
  readonly shape: readonly number[];
  readonly data: Float32Array | BigInt64Array;
}

export interface Graph {
  readonly nodes: readonly Node[];
  /** Shapes by name, all f32. */
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  readonly outputs: Readonly<Record<string, readonly number[]>>;
  /** Tensors that are part of the model. */
  readonly initializers?: Readonly<Record<string, Initializer>>;
}

/** Version 23 is the first with Attention; Gelu is there since 20. */
const opset = 23;
const irVersion = 10;

/** Numbers of `TensorProto.DataType`. */
const elementTypes = { float: 1, int64: 7 } as const;
/** Numbers of `AttributeProto.AttributeType`. */
const attributeTypes = { float: 1, int: 2, ints: 7 } as const;

/** Parts of a message; joined once at the end, since initializers are large. */
type Parts = readonly Uint8Array[];

/** The bytes of an ONNX model with one graph. */
export function encodeModel(graph: Graph): Uint8Array<ArrayBuffer> {
  const parts = [
    integer(1, irVersion),
    ...message(8, [integer(2, opset)]),
    ...message(7, [
      ...graph.nodes.flatMap((node) => message(1, encodeNode(node))),
      ...string(2, "graph"),
      ...Object.entries(graph.initializers ?? {}).flatMap(([name, tensor]) =>
        message(5, encodeInitializer(name, tensor)),
      ),
      ...Object.entries(graph.inputs).flatMap(([name, shape]) => message(11, encodeValue(name, shape))),
      ...Object.entries(graph.outputs).flatMap(([name, shape]) => message(12, encodeValue(name, shape))),
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

function encodeNode({ op, inputs, output, attributes = {} }: Node): Parts {
  return [
    ...inputs.flatMap((name) => string(1, name)),
    ...string(2, output),
    ...string(4, op),
    ...Object.entries(attributes).flatMap(([name, value]) => message(5, encodeAttribute(name, value))),
  ];
}

function encodeAttribute(name: string, value: Attribute): Parts {
  if (typeof value === "number")
    return [...string(1, name), integer(3, value), integer(20, attributeTypes.int)];
  if ("float" in value) return [...string(1, name), float(2, value.float), integer(20, attributeTypes.float)];
  return [...string(1, name), ...value.map((one) => integer(8, one)), integer(20, attributeTypes.ints)];
}

function encodeInitializer(name: string, { shape, data }: Initializer): Parts {
  const type = data instanceof Float32Array ? elementTypes.float : elementTypes.int64;
  return [
    ...shape.map((extent) => integer(1, extent)),
    integer(2, type),
    ...string(8, name),
    ...bytes(9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
  ];
}

/** A name with its type: a tensor of f32 and its shape. */
function encodeValue(name: string, shape: readonly number[]): Parts {
  const dimensions = shape.flatMap((extent) => message(1, [integer(1, extent)]));
  return [
    ...string(1, name),
    ...message(2, message(1, [integer(1, elementTypes.float), ...message(2, dimensions)])),
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

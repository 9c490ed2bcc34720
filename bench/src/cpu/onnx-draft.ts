import type { Graph, Node } from "./onnx.js";

export type Shape = readonly number[];
export type Shapes = Readonly<Record<string, Shape>>;

/** The name of the output that is compared. */
export const outputName = "result";

/** A graph, and what it is called in the report. */
export interface Draft {
  readonly how: string;
  readonly graph: Graph;
}

export interface Single {
  readonly attributes?: Node["attributes"];
  readonly domain?: Node["domain"];
  readonly initializers?: Graph["initializers"];
  readonly types?: Graph["types"];
  /** Names of the operator's inputs. Default: the inputs, then the initializers. */
  readonly order?: readonly string[];
  /** Shapes of further outputs, by the names of the case's arguments. */
  readonly others?: Shapes;
  /** In the report, after the operator's name. */
  readonly note?: string;
}

/** One operator. */
export function single(op: string, inputs: Shapes, output: Shape, more: Single = {}): Draft {
  const { attributes = {}, domain, initializers = {}, types = {}, others = {}, note } = more;
  const { order = [...Object.keys(inputs), ...Object.keys(initializers)] } = more;
  const node: Node = {
    ...{ op, inputs: order, output: [outputName, ...Object.keys(others)], attributes },
    ...(domain === undefined ? {} : { domain }),
  };
  const outputs = { [outputName]: output, ...others };
  const name = domain === undefined ? op : `${domain}.${op}`;
  return {
    how: note === undefined ? name : `${name}, ${note}`,
    graph: { nodes: [node], inputs, outputs, initializers, types },
  };
}

/** Whole numbers that are part of a model, as operators want shapes and axes. */
export function integers(...values: readonly number[]): {
  readonly shape: Shape;
  readonly data: BigInt64Array<ArrayBuffer>;
} {
  return { shape: [values.length], data: BigInt64Array.from(values, BigInt) };
}

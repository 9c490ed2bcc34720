import { MathBackendCPU } from "@tensorflow/tfjs-backend-cpu";
import { type BackendValues, type DataType, getKernel, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import type { Kernels } from "./kernel.js";

/** Tensors while a kernel of the host works on them. It says nothing on the first use in Node.js. */
class HostTensors extends MathBackendCPU {
  override write(values: BackendValues, shape: number[], dtype: DataType): object {
    const dataId = {};
    this.move(dataId, values, shape, dtype, 1);
    return dataId;
  }
}

const host = new HostTensors();

/** A tensor, or lists and objects of tensors: the inputs of kernels. */
type Nested = TensorInfo | readonly Nested[] | { readonly [name: string]: Nested } | undefined;

function isTensor(value: Nested): value is TensorInfo {
  return typeof value === "object" && "dataId" in value;
}

/** A kernel of tfjs-backend-cpu, on values that are read from the device. */
export function onHost(name: string): Kernels[string] {
  return ({ inputs, attrs, backend }: { inputs: Nested; attrs: object; backend: BackplaneBackend }) => {
    const borrowed: TensorInfo[] = [];
    const lend = (value: Nested): unknown => {
      if (value === undefined || value === null) return value;
      if (isTensor(value)) {
        const tensor = lendTensor(value, backend, name);
        borrowed.push(tensor);
        return tensor;
      }
      if (Array.isArray(value)) return value.map(lend);
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, lend(entry as Nested)]));
    };
    const { kernelFunc } = getKernel(name, "cpu");
    try {
      const results = kernelFunc({ inputs: lend(inputs) as never, attrs: attrs as never, backend: host });
      borrowed.push(...[results].flat());
      const taken = [results].flat().map((result) => take(result, backend));
      return Array.isArray(results) ? taken : taken[0]!;
    } finally {
      for (const { dataId } of borrowed) host.disposeData(dataId, true);
    }
  };
}

function lendTensor(tensor: TensorInfo, backend: BackplaneBackend, kernel: string): TensorInfo {
  const { shape, dtype } = tensor;
  if (dtype !== "complex64") {
    const dataId = host.write(backend.values(tensor, kernel), shape, dtype);
    return lent(dataId, shape, dtype);
  }
  const { real, imag } = backend.parts(tensor);
  const dataId = host.write(undefined as never, shape, dtype);
  host.data.get(dataId).complexTensorInfos = {
    real: lendTensor(real, backend, kernel),
    imag: lendTensor(imag, backend, kernel),
  };
  return lent(dataId, shape, dtype);
}

/** Some kernels expect tensors, which know their rank. */
function lent(dataId: object, shape: number[], dtype: DataType): TensorInfo {
  return Object.assign({ dataId, shape, dtype }, { rank: shape.length });
}

function take({ dataId, shape, dtype }: TensorInfo, backend: BackplaneBackend): TensorInfo {
  const { complexTensorInfos: parts, values } = host.data.get(dataId);
  if (parts === undefined || parts === null) return backend.make(shape, dtype, values!);
  return backend.complex(take(parts.real, backend), take(parts.imag, backend));
}

/** Kernels that other backends run on the host, too. */
const names = [
  // Strings, which no device holds.
  ...["StaticRegexReplace", "StringNGrams", "StringSplit", "StringToHashBucketFast"],
  // The shapes of their results depend on values.
  ...["NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5", "Unique"],
  ...["RaggedGather", "RaggedRange", "RaggedTensorToTensor"],
  ...["SparseFillEmptyRows", "SparseReshape", "SparseSegmentMean", "SparseSegmentSum"],
  // Shapes, of a few numbers.
  "BroadcastArgs",
  // Writes to a canvas.
  "Draw",
] as const;

export const hostKernels: Kernels = Object.fromEntries(names.map((name) => [name, onHost(name)]));

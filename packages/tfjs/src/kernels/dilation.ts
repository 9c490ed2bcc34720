import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import type { DeviceType } from "../elements.js";
import { asType, elementwise, typed } from "./elementwise.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { reduce } from "./reduce.js";
import { fold, largestOf, sizesOf, spread, unfold, type Windows, windowsOf2d } from "./windows.js";

interface DilationAttributes {
  readonly strides: [number, number] | number;
  readonly pad: "valid" | "same" | number;
  readonly dilations: [number, number] | number;
}

function dilationInfo(
  x: TensorInfo,
  filter: TensorInfo,
  { strides, pad: padding, dilations }: DilationAttributes,
) {
  const info = backend_util.computeDilation2DInfo(
    x.shape as [number, number, number, number],
    filter.shape as [number, number, number],
    ...([strides, padding, "NHWC", dilations] as const),
  );
  return { geometry: windowsOf2d(info), outShape: info.outShape };
}

/** The elements of windows with those of the filter added: [batch, windows, places, channels]. */
function raised(backend: BackplaneBackend, x: TensorInfo, filter: TensorInfo, geometry: Windows): TensorInfo {
  const { places } = sizesOf(geometry);
  return compose(backend, (made) => {
    const elements = made(unfold(backend, x, geometry, Number.NEGATIVE_INFINITY));
    const heights = { ...filter, shape: [places, geometry.channels] };
    return elementwise(backend, "float32", [elements, heights], (e, element, height) =>
      e.binary("add", e.convert("f32", element!), e.convert("f32", height!)),
    );
  });
}

type DilationInputs = "x" | "filter";

function dilation2d({
  inputs: { x, filter },
  attrs,
  backend,
}: Call<DilationInputs, DilationAttributes>): TensorInfo {
  const { geometry, outShape } = dilationInfo(x, filter, attrs);
  return compose(backend, (made) => {
    const floats = typed(backend, made, x, "float32");
    const result = reduce(backend, "max", made(raised(backend, floats, filter, geometry)), [2], outShape);
    if (x.dtype === "float32") return result;
    made(result);
    return asType(backend, result, x.dtype as DeviceType);
  });
}

/** The gradient of each place of each window: that of the result at the largest one. */
function dilationGradient(
  backend: BackplaneBackend,
  { x, filter, dy }: Call<DilationInputs | "dy">["inputs"],
  geometry: Windows,
): TensorInfo {
  return compose(backend, (made) => {
    const floats = typed(backend, made, x, "float32");
    const elements = made(raised(backend, floats, filter, geometry));
    const places = made(largestOf(backend, elements));
    return spread(backend, dy, places, elements.shape);
  });
}

export const dilationKernels: Kernels = {
  Dilation2D: dilation2d,
  Dilation2DBackpropInput: ({ inputs, attrs, backend }: Call<DilationInputs | "dy", DilationAttributes>) => {
    const { geometry } = dilationInfo(inputs.x, inputs.filter, attrs);
    return compose(backend, (made) =>
      fold(backend, made(dilationGradient(backend, inputs, geometry)), geometry),
    );
  },
  Dilation2DBackpropFilter: ({ inputs, attrs, backend }: Call<DilationInputs | "dy", DilationAttributes>) => {
    const { geometry } = dilationInfo(inputs.x, inputs.filter, attrs);
    return compose(backend, (made) =>
      reduce(backend, "sum", made(dilationGradient(backend, inputs, geometry)), [0, 1], inputs.filter.shape),
    );
  },
};

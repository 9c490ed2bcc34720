import type { Conv2dArguments } from "@backplane/core";
import type { Call } from "../checks.js";
import { numbers, type Plan } from "../plan.js";

type Quad = readonly [number, number, number, number];
type Pair = readonly [number, number];

const layouts = ["NCHW", "NHWC"] as const;

/** How many elements each image, channel, row and column lies behind the one before. */
interface Steps {
  readonly image: number;
  readonly channel: number;
  readonly row: number;
  readonly column: number;
}

function stepsOf(layout: (typeof layouts)[number], channels: number, height: number, width: number): Steps {
  const image = channels * height * width;
  return layout === "NCHW"
    ? { image, channel: height * width, row: width, column: 1 }
    : { image, channel: 1, row: width * channels, column: channels };
}

/** One direction of the window: y or x. */
interface Direction {
  readonly size: number;
  readonly before: number;
  readonly kernel: number;
  readonly stride: number;
  readonly dilation: number;
  readonly out: number;
}

export function planConv2d(call: Call, args: Conv2dArguments): Plan | undefined {
  const inputShape = call.wholes("inputShape", args.inputShape, 4) as unknown as Quad;
  const layout = call.choice("layout", args.layout ?? "NCHW", layouts);
  const isLast = layout === "NHWC";
  const batch = inputShape[0];
  const [height, width] = isLast ? [inputShape[1], inputShape[2]] : [inputShape[2], inputShape[3]];
  const channels = inputShape[isLast ? 3 : 1];
  const filterShape = call.wholes("filterShape", args.filterShape, 4) as unknown as Quad;
  const [outChannels, groupChannels, kernelHeight, kernelWidth] = filterShape;
  const stride = call.wholes("stride", args.stride ?? [1, 1], 2, 1) as unknown as Pair;
  const dilation = call.wholes("dilation", args.dilation ?? [1, 1], 2, 1) as unknown as Pair;
  const padding = call.wholes("padding", args.padding ?? [0, 0, 0, 0], 4) as unknown as Quad;
  const groups = call.whole("groups", args.groups ?? 1, 1);
  if (channels % groups !== 0 || outChannels % groups !== 0)
    call.refuse("groups", groups, `divisors of ${channels} and ${outChannels} channels`);
  if (groupChannels !== channels / groups)
    call.refuse("filterShape[1]", groupChannels, `${channels / groups}, inChannels / groups`);

  const direction = (axis: 0 | 1, size: number, kernel: number): Direction => {
    call.whole(`filterShape[${axis + 2}]`, kernel, 1);
    const reach = dilation[axis] * (kernel - 1) + 1;
    const padded = padding[axis]! + size + padding[axis + 2]!;
    if (padded >= 2 ** 30) call.refuse("padding", padding, "less than 2^30 rows and columns with it");
    if (reach > padded) call.refuse("filterShape", filterShape, `windows of at most the padded ${padded}`);
    const out = Math.floor((padded - reach) / stride[axis]) + 1;
    return { size, before: padding[axis]!, kernel, stride: stride[axis], dilation: dilation[axis], out };
  };
  const y = direction(0, height, kernelHeight);
  const x = direction(1, width, kernelWidth);
  const outputShape = isLast ? [batch, y.out, x.out, outChannels] : [batch, outChannels, y.out, x.out];
  if (args.outputShape !== undefined) {
    const given = call.wholes("outputShape", args.outputShape, 4);
    if (given.some((extent, axis) => extent !== outputShape[axis]))
      call.refuse("outputShape", given, `[${outputShape.join(", ")}]`);
  }

  const input = call.place("input", args.input, call.count("inputShape", inputShape), 4);
  const filter = call.place("filter", args.filter, call.count("filterShape", filterShape), 4);
  const bias = args.bias === undefined ? undefined : call.place("bias", args.bias, outChannels, 4);
  const output = call.place("output", args.output, call.count("outputShape", outputShape), 4);
  call.apart(["output", output], ["input", input], "never");
  call.apart(["output", output], ["filter", filter], "never");
  if (bias !== undefined) call.apart(["output", output], ["bias", bias], "never");
  if (output.byteLength === 0) return undefined;
  const from = stepsOf(layout, channels, height, width);
  const to = stepsOf(layout, outChannels, y.out, x.out);

  return {
    output,
    inputs: bias === undefined ? [input, filter] : [input, filter, bias],
    compute(bytes, [inputBytes, filterBytes, biasBytes]) {
      const results = numbers(bytes, output);
      const images = numbers(inputBytes!, input);
      const filters = numbers(filterBytes!, filter);
      const biases = biasBytes === undefined ? undefined : numbers(biasBytes, bias!);
      for (let image = 0; image < batch; image++)
        for (let out = 0; out < outChannels; out++) {
          const group = Math.floor(out / (outChannels / groups));
          const first = image * from.image + group * groupChannels * from.channel;
          for (let row = 0; row < y.out; row++)
            for (let column = 0; column < x.out; column++) {
              let sum = biases?.[out] ?? 0;
              for (let channel = 0; channel < groupChannels; channel++)
                for (let i = 0; i < y.kernel; i++) {
                  const inRow = row * y.stride + i * y.dilation - y.before;
                  if (inRow < 0 || inRow >= y.size) continue;
                  const line = first + channel * from.channel + inRow * from.row;
                  const weights = ((out * groupChannels + channel) * y.kernel + i) * x.kernel;
                  for (let j = 0; j < x.kernel; j++) {
                    const inColumn = column * x.stride + j * x.dilation - x.before;
                    if (inColumn >= 0 && inColumn < x.size)
                      sum += filters[weights + j]! * images[line + inColumn * from.column]!;
                  }
                }
              results[image * to.image + out * to.channel + row * to.row + column * to.column] = sum;
            }
        }
    },
  };
}

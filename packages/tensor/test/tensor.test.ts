import {
  arange,
  concatenate,
  conv2d,
  crossEntropy,
  full,
  maxPool2d,
  oneHot,
  ones,
  resize2d,
  scope,
  setFusion,
  stack,
  type Tensor,
  tensor,
  where,
  zeros,
} from "@backplane/tensor";
import { assert } from "chai";
import { onCpu, rejects, throws } from "./support.js";

const bench = onCpu();

const counted = (...shape: number[]): Tensor =>
  arange(
    bench.backend,
    shape.reduce((a, b) => a * b, 1),
    "f32",
  ).reshape(...shape);

describe("a tensor", () => {
  it("has the elements, the shape and the type that it was made of", async () => {
    const { backend } = bench;
    const matrix = tensor(backend, [
      [1, 2, 3],
      [4, 5, 6],
    ]);
    assert.deepEqual(matrix.shape, [2, 3]);
    assert.equal(matrix.dtype, "f32");
    assert.deepEqual(await matrix.toArray(), [
      [1, 2, 3],
      [4, 5, 6],
    ]);
    assert.deepEqual(await tensor(backend, Int32Array.of(1, -2)).toArray(), [1, -2]);
    assert.deepEqual(
      await tensor(backend, [0.1, 65504], { dtype: "f16" }).toArray(),
      [0.0999755859375, 65504],
    );
    assert.deepEqual(
      await tensor(backend, Uint8Array.of(1, 2, 3, 4), { shape: [2, 2], dtype: "f32" }).toArray(),
      [
        [1, 2],
        [3, 4],
      ],
    );
    assert.equal(await tensor(backend, 7).item(), 7);
    assert.deepEqual(await zeros(backend, [2, 0]).toArray(), [[], []]);
    assert.deepEqual(await full(backend, [2], 3, "i32").toArray(), [3, 3]);
    assert.deepEqual(await oneHot(tensor(backend, Int32Array.of(2, 0)), 3).toArray(), [
      [0, 0, 1],
      [1, 0, 0],
    ]);
  });

  it("refuses what is no array of numbers, and says why", async () => {
    const { backend } = bench;
    throws("INVALID_ARGUMENT", /does not have the shape \[2, 2\]/, () => tensor(backend, [[1, 2], [3]]));
    throws("INVALID_ARGUMENT", /shape is \[3\]; allowed: shapes of the 2 elements/, () =>
      tensor(backend, [1, 2], { shape: [3] }),
    );
    throws("INVALID_ARGUMENT", /data\[1\] is 0.5; allowed for u8/, () =>
      tensor(backend, [1, 0.5], { dtype: "u8" }),
    );
    for (const [name, make] of Object.entries({
      tensor: (dtype: never) => tensor(backend, [1], { dtype }),
      full: (dtype: never) => full(backend, [1], 1, dtype),
      zeros: (dtype: never) => zeros(backend, [1], dtype),
      cast: (dtype: never) => ones(backend, [1]).cast(dtype),
    }))
      for (const dtype of ["f64", "toString", 7])
        throws(
          "INVALID_ARGUMENT",
          new RegExp(`^${name}: dtype is ${dtype}; allowed: f32, f16, i32, u32, u8, bf16$`),
          () => make(dtype as never),
        );
    throws("INVALID_ARGUMENT", /data is a Float64Array/, () => tensor(backend, new Float64Array(1)));
    await rejects("INVALID_ARGUMENT", /item: tensor has shape \[2\]/, ones(backend, [2]).item());
    const gone = ones(backend, [1]);
    gone.dispose();
    throws("DISPOSED", /tensor: value was disposed of/, () => gone.add(1));
    throws("INVALID_ARGUMENT", /add: dtypes are f32 and i32/, () =>
      ones(backend, [1]).add(ones(backend, [1], "i32")),
    );
    throws("INVALID_ARGUMENT", /mul: shapes are \[2\] and \[3\]/, () =>
      ones(backend, [2]).mul(ones(backend, [3])),
    );
    throws("INVALID_ARGUMENT", /mul: b is Infinity, beside f32/, () => ones(backend, [2]).mul(Infinity));
    throws("INVALID_ARGUMENT", /add: b is 0.5, beside i32; allowed: whole numbers/, () =>
      ones(backend, [2], "i32").add(0.5),
    );
    const x = ones(backend, [2, 2]);
    for (const other of ["1", 1n, undefined, null])
      throws(
        "INVALID_ARGUMENT",
        /^add: inputs\[1\] is .*; allowed: tensors, and numbers in arithmetic$/,
        () => x.add(other as never),
      );
    for (const [message, call] of [
      [/^matmul: other is undefined; allowed: a tensor$/, () => x.matmul(undefined as never)],
      [/^take: indices is of type object; allowed: a tensor$/, () => x.take([0] as never)],
      [/^assign: other is of type number; allowed: a tensor$/, () => x.assign(1 as never)],
      [/^crossEntropy: labels is of type object; allowed/, () => crossEntropy(x, [0, 1] as never)],
      [/^oneHot: indices is of type number; allowed: a tensor$/, () => oneHot(1 as never, 2)],
      [/^stack: parts\[1\] is of type number; allowed: a tensor$/, () => stack([x, 1 as never])],
      [/^concatenate: parts is undefined; allowed/, () => concatenate(undefined as never)],
      [/^concatenate: parts is of type object; allowed: at least one tensor$/, () => concatenate(x as never)],
      [/^sum: axes is of type object; allowed: an axis or a list/, () => x.sum({ keepAxes: true } as never)],
      [/^full: backend is of type object; allowed: a ComputeBackend$/, () => full([2] as never, [2], 1)],
      [/^zeros: backend is undefined; allowed/, () => zeros(undefined as never, [2])],
      [/^scope: body is of type object; allowed: a function$/, () => scope(x as never)],
    ] as const)
      throws("INVALID_ARGUMENT", message, call);
    throws("INVALID_ARGUMENT", /unary: kind is toString, which is unknown/, () =>
      x.unary("toString" as never),
    );
    throws("INVALID_ARGUMENT", /binary: kind is constructor, which is unknown/, () =>
      x.binary("constructor" as never, 1),
    );
    throws("INVALID_ARGUMENT", /scan: kind is valueOf, which is unknown/, () => x.scan("valueOf" as never));
    throws("INVALID_ARGUMENT", /scan: kind is nope, which is unknown/, () => x.scan("nope" as never));
    throws("INVALID_ARGUMENT", /binary: kind is nope, which is unknown/, () =>
      x.binaryFrom("nope" as never, 1),
    );
    throws("INVALID_ARGUMENT", /gather: indices have shape \[2\]; allowed: 2 axes/, () =>
      x.takeAlong(zeros(backend, [2], "i32")),
    );
    throws("INVALID_ARGUMENT", /scatterAdd: shape is \[-2, 2\]/, () =>
      x.scatterAdd(zeros(backend, [2, 2], "i32"), [-2, 2]),
    );
    throws("INVALID_ARGUMENT", /pad: amounts is \[\[-1,0\]\]; allowed: two whole numbers/, () =>
      x.pad([-1, 0]),
    );
    const images = zeros(backend, [1, 1, 4, 4]);
    throws("INVALID_ARGUMENT", /conv2d: stride is \[0, 1\]; allowed: 2 whole numbers from 1/, () =>
      conv2d(images, images, undefined, { stride: [0, 1] }),
    );
    throws("INVALID_ARGUMENT", /pool2d: padding is \[1, 1\]; allowed: 4 whole numbers from 0/, () =>
      maxPool2d(images, [2, 2], { padding: [1, 1] as never }),
    );
    throws("INVALID_ARGUMENT", /resize2d: outputHeight is \[-1\]/, () =>
      resize2d(images, { kind: "nearest", outputHeight: -1, outputWidth: 2 }),
    );
    throws("INVALID_ARGUMENT", /is of type u8, which does not have exp/, () =>
      ones(backend, [2], "u8").exp(),
    );
  });

  it("leaves nothing behind if an operation fails", () => {
    const { backend } = bench;
    const x = ones(backend, [2, 3]);
    const { liveAllocations } = backend.memory();
    const { gemm, map } = backend;
    const fail = (): never => {
      throw new Error("a fault");
    };
    Object.assign(backend, { gemm: fail, map: fail });
    try {
      assert.throws(() => x.matmul(x.transpose()), "a fault");
      const sum = x.add(1);
      assert.throws(() => sum.compute(), "a fault");
      sum.dispose();
      setFusion(false);
      assert.throws(() => x.mul(2), "a fault");
    } finally {
      setFusion(true);
      Object.assign(backend, { gemm, map });
    }
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("is looked at in other ways without copies where strides allow it", async () => {
    const x = counted(2, 3, 4);
    const { handle } = x.value.storage!;
    const views = [
      x.transpose(),
      x.permute(2, 0, 1),
      x.slice(1, [1, 3]),
      x.slice(-1, { start: -1, step: -2 }),
      x.reshape(6, 4),
      x.transpose(0, 1).slice(0, [0, 1]).reshape(2, 4),
      x.unsqueeze(1).expand(2, 5, 3, 4),
      x.at(1),
      x.flip(0),
    ];
    for (const view of views) assert.equal(view.value.storage!.handle, handle);
    assert.deepEqual(await x.slice(-1, { start: -1, step: -2 }).at(0).toArray(), [
      [3, 1],
      [7, 5],
      [11, 9],
    ]);
    assert.deepEqual(await x.permute(2, 0, 1).at(3).toArray(), [
      [3, 7, 11],
      [15, 19, 23],
    ]);
    assert.deepEqual(await x.transpose().reshape(-1).slice(0, [0, 6]).toArray(), [0, 4, 8, 1, 5, 9]);
    assert.deepEqual(await x.flip(0).at(0).at(0).toArray(), [12, 13, 14, 15]);
    throws("INVALID_ARGUMENT", /reshape: shape is \[5, -1\]/, () => x.reshape(5, -1));
    throws("OUT_OF_BOUNDS", /at: place is 2; allowed: -2 to 1/, () => x.at(2));
  });

  it("computes with views as with copies of them", async () => {
    const x = counted(3, 4);
    assert.deepEqual(
      await x
        .transpose()
        .add(x.transpose().slice(0, { step: -1 }))
        .toArray(),
      [
        [3, 11, 19],
        [3, 11, 19],
        [3, 11, 19],
        [3, 11, 19],
      ],
    );
    const row = x.at(1).unsqueeze(0).expand(3, 4);
    assert.deepEqual(await x.sub(row).sum(1).toArray(), [-16, 0, 16]);
    assert.deepEqual(await x.transpose().matmul(x).at(0).toArray(), [80, 92, 104, 116]);
    assert.deepEqual(await x.pad([1, 0], [0, 2]).sum(0).toArray(), [12, 15, 18, 21, 0, 0]);
    assert.deepEqual(await concatenate([x, x.slice(0, [2])]).shape, [4, 4]);
    assert.deepEqual(await stack([x.at(0), x.at(2)], 1).toArray(), [
      [0, 8],
      [1, 9],
      [2, 10],
      [3, 11],
    ]);
    assert.deepEqual(await Promise.all(x.chunk(3, 1).map((part) => part.sum().item())), [45, 21]);
  });

  it("multiplies batches that broadcast", async () => {
    const a = counted(2, 1, 2, 3);
    const b = counted(3, 3, 2);
    const product = a.matmul(b);
    assert.deepEqual(product.shape, [2, 3, 2, 2]);
    const each = await Promise.all(
      [0, 1].flatMap((i) => [0, 1, 2].map((j) => a.at(i).at(0).matmul(b.at(j)).toArray())),
    );
    assert.deepEqual(await product.reshape(6, 2, 2).toArray(), each);
    assert.deepEqual(await a.matmul(b.at(0)).reshape(2, 4).toArray(), [
      [10, 13, 28, 40],
      [46, 67, 64, 94],
    ]);
    const row = counted(3);
    assert.equal(await row.matmul(row).item(), 5);
    assert.deepEqual(await counted(2, 3).matmul(row).toArray(), [5, 14]);
    throws("INVALID_ARGUMENT", /matmul: shapes are \[2, 3\] and \[2, 3\]/, () =>
      counted(2, 3).matmul(counted(2, 3)),
    );
  });

  it("reduces, selects, indexes and sorts out", async () => {
    const { backend } = bench;
    const x = tensor(backend, [
      [3, -1, 2],
      [0, 5, 4],
    ]);
    assert.deepEqual(await x.max(1).toArray(), [3, 5]);
    assert.deepEqual(await x.mean(0, { keepAxes: true }).toArray(), [[1.5, 2, 3]]);
    assert.deepEqual(await x.argMax().toArray(), [0, 1]);
    assert.equal(await x.greater(4).any().item(), 1);
    assert.deepEqual(await where(x.less(0), 0, x).prod(1).toArray(), [0, 0]);
    assert.deepEqual(await x.cumulativeSum(1).toArray(), [
      [3, 2, 4],
      [0, 5, 9],
    ]);
    assert.deepEqual(await x.clip(0, 3).toArray(), [
      [3, 0, 2],
      [0, 3, 3],
    ]);
    assert.deepEqual(await x.take(tensor(backend, Int32Array.of(1, 1, 0)), 1).toArray(), [
      [-1, -1, 3],
      [5, 5, 0],
    ]);
    assert.deepEqual(await x.take(tensor(backend, Int32Array.of(1, 0), { shape: [1, 2] })).shape, [1, 2, 3]);
    assert.deepEqual(await x.takeAlong(tensor(backend, [[2], [0]], { dtype: "i32" })).toArray(), [[2], [0]]);
    assert.deepEqual(await x.cast("u8").toArray(), [
      [3, 0, 2],
      [0, 5, 4],
    ]);
    assert.closeTo(await x.add(1000).logSumExp().item(), 1005.4461, 1e-3);
    assert.closeTo(await x.variance().item(), 29 / 6 + 26 / 6 - (13 / 6) ** 2, 1e-5);
  });

  it("prints itself for people", async () => {
    const { backend } = bench;
    assert.equal(String(ones(backend, [2, 3])), "Tensor f32 [2, 3] on cpu");
    assert.equal(
      await tensor(backend, [
        [1, -0.5],
        [10, 1 / 3],
      ]).print(),
      "Tensor f32 [2, 2]\n[[      1,    -0.5],\n [     10, 0.33333]]",
    );
    assert.match(
      await counted(40, 40).print(),
      /^Tensor f32 \[40, 40\]\n\[\[ +0, +1, +2, \.\.\., +37, +38, +39\],\n/,
    );
    assert.equal(await tensor(backend, 2).print(), "Tensor f32 []\n2");
  });

  it("is replaced by assign, and those who have the old elements keep them", async () => {
    const x = counted(2, 2);
    const later = x.mul(2);
    const column = x.transpose().at(0);
    x.assign(ones(bench.backend, [2, 2]));
    assert.deepEqual(await x.toArray(), [
      [1, 1],
      [1, 1],
    ]);
    assert.deepEqual(await later.toArray(), [
      [0, 2],
      [4, 6],
    ]);
    assert.deepEqual(await column.toArray(), [0, 2]);
    throws("INVALID_ARGUMENT", /assign: other is Tensor f32 \[2\]/, () => x.assign(ones(bench.backend, [2])));
  });
});

describe("fusion", () => {
  const chain = (x: Tensor, y: Tensor): Tensor =>
    where(x.greater(y), x.mul(2).sub(x.exp()), x.tanh().mul(y).add(0.1)).div(x.square().add(1)).gelu();

  it("runs a chain as one map, with the bits of single operations", async () => {
    const { backend } = bench;
    const [x, y] = [counted(4, 5).mul(0.3).sub(2).compute(), counted(5).mul(-0.2).compute()];
    const calls: string[] = [];
    const map = backend.map;
    backend.map = (args) => {
      calls.push("map");
      map.call(backend, args);
    };
    try {
      const fused = await chain(x, y).data();
      assert.equal(calls.length, 1);
      assert.equal(setFusion(false), true);
      const apart = await chain(x, y).data();
      assert.equal(calls.length, 1 + 12);
      assert.deepEqual(fused, apart);
    } finally {
      setFusion(true);
      backend.map = map;
    }
  });

  it("never computes what nobody needs, and frees what it held", () => {
    const { backend } = bench;
    const x = counted(3).compute();
    const { liveAllocations } = backend.memory();
    const sum = x.add(1).mul(2);
    sum.dispose();
    x.exp().dispose();
    assert.equal(backend.memory().liveAllocations, liveAllocations);
  });

  it("cuts chains that are too long, or have too many operands", async () => {
    const { backend } = bench;
    let x = ones(backend, [3]);
    for (let i = 0; i < 500; i++) x = x.add(1);
    assert.deepEqual(await x.toArray(), [501, 501, 501]);
    let sum = zeros(backend, [2]);
    for (let i = 0; i < 40; i++) sum = sum.add(full(backend, [2], i));
    assert.deepEqual(await sum.toArray(), [780, 780]);
    let doubled = ones(backend, [1]);
    for (let i = 0; i < 20; i++) doubled = doubled.add(doubled);
    assert.equal(await doubled.item(), 2 ** 20);
  });
});

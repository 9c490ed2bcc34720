"""Times PyTorch's operations for bench/dist/main.js: one JSON object per line in, one answer each out.

{"do": "about"}                                      versions and device
{"do": "open", "problem": {...}}                     prepares a case of bench/src/cases
{"do": "sample", "sample": 0.05, "warmUp": 0.0125}   {"seconds": per operation}
{"do": "close"}                                      forgets it

f32 is computed in f32: TF32 is switched off. Answers {"error": text} where something cannot be done.
It is one file, so that it can be copied to a machine without this repository.
"""

import json
import math
import operator
import sys
import time

import torch
import torch.nn.functional as functional

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
types = {"f32": torch.float32, "f16": torch.float16, "i32": torch.int32}
aten = torch.ops.aten


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize()


def random(shape, dtype):
    return (torch.rand(shape, device=device, dtype=torch.float32) * 2 - 1).to(dtype)


def gemm(problem, dtype):
    m, n, k, padding = problem["m"], problem["n"], problem["k"], problem["padding"]

    def matrix(rows, columns):
        return random((rows, columns + padding), dtype)[:, :columns]

    a = matrix(k, m).t() if problem["transA"] else matrix(m, k)
    b = matrix(n, k).t() if problem["transB"] else matrix(k, n)
    c = matrix(m, n)
    return lambda: torch.mm(a, b, out=c), 1


def batched_gemm(problem, dtype):
    batch, m, n, k = problem["batch"], problem["m"], problem["n"], problem["k"]
    a, b = random((batch, m, k), dtype), random((batch, k, n), dtype)
    c = torch.empty((batch, m, n), device=device, dtype=dtype)
    return lambda: torch.bmm(a, b, out=c), 1


def compiled(function):
    """Operations that PyTorch has no kernel for together: it makes one, for which it needs a C compiler."""
    return torch.compile(function, fullgraph=True, dynamic=False)


def images(problem, shape, dtype):
    """In the order NCHW, in memory as the problem's layout says ("channels last" is NHWC)."""
    values = random(shape, dtype)
    return values.permute(0, 3, 1, 2) if problem.get("layout") == "NHWC" else values


def conv2d(problem, dtype):
    source, weights = images(problem, problem["inputShape"], dtype), random(problem["filterShape"], dtype)
    if problem.get("layout") == "NHWC":
        weights = weights.contiguous(memory_format=torch.channels_last)
    stride, padding, groups = problem["stride"], problem["padding"], problem["groups"]
    return lambda: functional.conv2d(source, weights, None, stride, padding, 1, groups), 1


def conv2d_gradient(problem, dtype, mask):
    source, weights = random(problem["inputShape"], dtype), random(problem["filterShape"], dtype)
    stride, padding, groups = ([problem[name]] * 2 for name in ("stride", "padding", "groups"))
    gradient = torch.rand_like(functional.conv2d(source, weights, None, stride, padding, 1, groups[0]))
    return lambda: aten.convolution_backward(
        gradient, source, weights, None, stride, padding, [1, 1], False, [0, 0], groups[0], mask
    ), 1


def conv2d_input_gradient(problem, dtype):
    return conv2d_gradient(problem, dtype, [True, False, False])


def conv2d_filter_gradient(problem, dtype):
    return conv2d_gradient(problem, dtype, [False, True, False])


def attention(problem, dtype):
    batch, heads, kv_heads, size = (problem[name] for name in ("batch", "heads", "kvHeads", "headSize"))
    queries, keys = problem["queries"], problem["keys"]
    if problem["isFused"]:
        beside = random((batch, keys, heads + 2 * kv_heads, size), dtype)
        q, k, v = (part.transpose(1, 2) for part in beside.split((heads, kv_heads, kv_heads), 2))
    else:
        q = random((batch, heads, queries, size), dtype)
        k, v = (random((batch, kv_heads, problem["room"], size), dtype)[:, :, :keys] for _ in range(2))
    mask = {
        "additive": lambda: random((queries, keys), dtype),
        "boolean": lambda: torch.rand((queries, keys), device=device) < 0.5,
    }.get(problem.get("mask"), lambda: None)()
    options = {"attn_mask": mask, "is_causal": problem["causal"], "enable_gqa": heads != kv_heads}
    return lambda: functional.scaled_dot_product_attention(q, k, v, **options), 1


def attention_gradient(problem, dtype):
    batch, heads, length, size = (problem[name] for name in ("batch", "heads", "length", "headSize"))
    q, k, v = (random((batch, heads, length, size), dtype).requires_grad_() for _ in range(3))
    with torch.enable_grad():
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=problem["causal"])
    gradient = random(out.shape, dtype)
    # The backward pass alone: the forward one has been made above and is kept.
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), 1


def rope(problem, dtype):
    rows, size = problem["rows"], problem["size"]
    source = random((problem["batch"], problem["heads"], rows, size), dtype)
    cos, sin = (random((rows, size // 2), torch.float32) for _ in range(2))
    are_neighbours = problem["kind"] == "neighbours"

    @compiled
    def turn(source, cos, sin):
        first, second = source.unflatten(-1, (-1, 2)).unbind(-1) if are_neighbours else source.chunk(2, -1)
        turned = (first * cos - second * sin, second * cos + first * sin)
        return (torch.stack(turned, -1).flatten(-2) if are_neighbours else torch.cat(turned, -1)).to(dtype)

    return lambda: turn(source, cos, sin), 1


def quantized_gemm(problem, dtype):
    m, n, k, block = problem["m"], problem["n"], problem["k"], problem.get("block", 32)
    if dtype != torch.float16 or problem.get("bits", 4) != 4:
        raise NotImplementedError("PyTorch multiplies by weights of 4 bits in bf16 only")
    # bf16 in place of f16, and a zero point for each block, which ours may do without.
    a = random((m, k), torch.bfloat16)
    packed = torch.randint(256, (n, k // 2), device=device, dtype=torch.uint8)
    weights = aten._convert_weight_to_int4pack(packed, 8)
    scales = random((k // block, n, 2), torch.bfloat16)
    return lambda: aten._weight_int4pack_mm(a, weights, block, scales), 1


def reduce(problem, dtype):
    source = random(problem["shape"], dtype)
    function = {
        "sum": torch.sum,
        "mean": torch.mean,
        "max": torch.amax,
        "min": torch.amin,
        "logSumExp": torch.logsumexp,
    }[problem["kind"]]
    axis = problem["axis"] if "axis" in problem else problem["axes"]
    axes = list(range(source.dim())) if axis == "all" else axis
    return lambda: function(source, axes), 1


def arg_reduce(problem, dtype):
    source, axis = random(problem["shape"], dtype), problem["axis"]
    function = {"argMax": torch.argmax, "argMin": torch.argmin}[problem["kind"]]
    return lambda: function(source, axis), 1


def scan(problem, dtype):
    if problem.get("exclusive") or problem.get("reverse"):
        raise NotImplementedError("PyTorch's scans are inclusive, from the first element on")
    source, axis = random(problem["shape"], dtype), problem["axis"]
    function = {"sum": torch.cumsum, "prod": torch.cumprod}[problem["kind"]]
    return lambda: function(source, axis), 1


def softmax(problem, dtype):
    source, axis = random(problem["shape"], dtype), problem["axis"]
    function = {"softmax": torch.softmax, "logSoftmax": torch.log_softmax}[problem["kind"]]
    return lambda: function(source, axis), 1


def softmax_gradient(problem, dtype):
    output, gradient = (random(problem["shape"], dtype) for _ in range(2))
    function = {"softmax": aten._softmax_backward_data, "logSoftmax": aten._log_softmax_backward_data}[
        problem["kind"]
    ]
    return lambda: function(gradient, output, problem["axis"], dtype), 1


def normalize(problem, dtype):
    shape = (problem["size"],)
    source = random((problem["rows"], problem["size"]), dtype)
    weight, bias = random(shape, dtype), random(shape, dtype)
    if problem["kind"] == "rms":
        return lambda: functional.rms_norm(source, shape, weight, 1e-5), 1
    return lambda: functional.layer_norm(source, shape, weight, bias, 1e-5), 1


def normalize_gradient(problem, dtype):
    rows, shape = problem["rows"], [problem["size"]]
    source, gradient = (random((rows, problem["size"]), dtype) for _ in range(2))
    weight, bias = random(shape, dtype), random(shape, dtype)
    mean, inverse = random((rows, 1), torch.float32), random((rows, 1), torch.float32)
    if problem["kind"] == "rms":
        backward = aten._fused_rms_norm_backward
        return lambda: backward(gradient, source, shape, inverse, weight, [True, True]), 1
    backward = aten.native_layer_norm_backward
    return lambda: backward(gradient, source, shape, mean, inverse, weight, bias, [True] * 3), 1


def pool2d_options(problem):
    """Kernel, strides, padding and dilation."""
    kernel = problem["kernel"]
    top, bottom, left, right = problem.get("padding", [0] * 4)
    if (top, left) != (bottom, right):
        raise NotImplementedError("PyTorch pads both sides alike")
    return kernel, problem.get("stride", kernel), [top, left], problem.get("dilation", [1, 1])


def pool2d(problem, dtype):
    source = images(problem, problem["inputShape"], dtype)
    kernel, stride, padding, dilation = pool2d_options(problem)
    if problem["kind"] == "max":
        return lambda: functional.max_pool2d(source, kernel, stride, padding, dilation), 1
    counts = problem.get("countPadding", False)
    return lambda: functional.avg_pool2d(source, kernel, stride, padding, False, counts), 1


def pool2d_gradient(problem, dtype):
    source = images(problem, problem["inputShape"], dtype)
    kernel, stride, padding, dilation = pool2d_options(problem)
    if problem["kind"] == "max":
        output, places = aten.max_pool2d_with_indices(source, kernel, stride, padding, dilation, False)
        gradient = torch.rand_like(output)
        backward = aten.max_pool2d_with_indices_backward
        return lambda: backward(gradient, source, kernel, stride, padding, dilation, False, places), 1
    counts = problem.get("countPadding", False)
    gradient = torch.rand_like(aten.avg_pool2d(source, kernel, stride, padding, False, counts))
    backward = aten.avg_pool2d_backward
    return lambda: backward(gradient, source, kernel, stride, padding, False, counts, None), 1


def resize2d_mode(problem):
    """PyTorch's name of the kind, and whether corners are aligned. Its nearest element of the middle is "exact"."""
    coordinates = problem.get("coordinates", "half-pixel")
    modes = {
        ("nearest", "half-pixel"): ("nearest-exact", None),
        ("nearest", "asymmetric"): ("nearest", None),
        ("bilinear", "half-pixel"): ("bilinear", False),
        ("bilinear", "align-corners"): ("bilinear", True),
    }
    return modes[problem["kind"], coordinates]


def resize2d(problem, dtype):
    source = images(problem, problem["inputShape"], dtype)
    mode, align_corners = resize2d_mode(problem)
    size = (problem["outputHeight"], problem["outputWidth"])
    return lambda: functional.interpolate(source, size, mode=mode, align_corners=align_corners), 1


def resize2d_gradient(problem, dtype):
    source = images(problem, problem["inputShape"], dtype)
    mode, align_corners = resize2d_mode(problem)
    size = [problem["outputHeight"], problem["outputWidth"]]
    gradient = torch.rand_like(functional.interpolate(source, size, mode=mode, align_corners=align_corners))
    shape = list(source.shape)
    if mode == "bilinear":
        return lambda: aten.upsample_bilinear2d_backward(gradient, size, shape, align_corners), 1
    backward = {
        "nearest": aten.upsample_nearest2d_backward,
        "nearest-exact": aten._upsample_nearest_exact2d_backward,
    }[mode]
    return lambda: backward(gradient, size, shape), 1


def unary(problem, dtype):
    source = random((problem["n"],), dtype)
    result = torch.empty_like(source)
    kind = problem["kind"]
    if kind == "gelu":
        return lambda: functional.gelu(source), 1
    function = {"exp": torch.exp, "tanh": torch.tanh, "relu": torch.relu}[kind]
    return (lambda: function(source)) if kind == "relu" else (lambda: function(source, out=result)), 1


def binary(problem, dtype):
    shape = (problem["rows"], problem["columns"])
    a = random(shape, dtype)
    b = random(shape[1:] if problem["broadcast"] else shape, dtype)
    c = torch.empty_like(a, dtype=torch.bool if problem["kind"] == "greater" else dtype)
    function = {"add": torch.add, "mul": torch.mul, "greater": torch.gt}[problem["kind"]]
    return lambda: function(a, b, out=c), 1


def select(problem, dtype):
    n = problem["n"]
    condition = torch.rand((n,), device=device) < 0.5
    a, b = random((n,), dtype), random((n,), dtype)
    return lambda: torch.where(condition, a, b), 1


def map_nodes(problem, dtype):
    shape = problem["shape"]
    if problem["name"].startswith("Adam"):
        return adam(shape, dtype)
    nodes, parameters, results = problem["nodes"], problem["parameters"], problem["results"]
    inputs = [random(shape, dtype) for name in problem["elements"] if name.startswith("inputs")]
    binary_functions = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}

    @compiled
    def evaluate(inputs):
        values = []
        for node in nodes:
            if "input" in node:
                values.append(inputs[node["input"]])
            elif "parameter" in node:
                values.append(parameters[node["parameter"]])
            elif "constant" in node:
                values.append(node["constant"])
            elif "unary" in node:
                values.append(getattr(torch, node["unary"])(values[node["x"]]))
            else:
                values.append(binary_functions[node["binary"]](values[node["a"]], values[node["b"]]))
        return [values[result] for result in results]

    return lambda: evaluate(inputs), 1


def adam(shape, dtype):
    """The step of torch.optim.Adam(fused=True): one kernel, like ours."""
    weight, gradient, first = (random(shape, dtype) for _ in range(3))
    second = random(shape, dtype).abs()
    step = torch.ones((), device=device)
    options = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
    return lambda: torch._fused_adam_(
        [weight], [gradient], [first], [second], [], [step], **options, amsgrad=False, maximize=False
    ), 1


def random_numbers(problem, dtype):
    output = torch.empty((problem["count"],), device=device, dtype=dtype)
    return {"uniform": output.uniform_, "normal": output.normal_}[problem["kind"]], 1


def copy(problem, dtype):
    """From one view to another, which is what `contiguous`, `cat`, `pad` and `to` do."""
    shape, elements, before = problem["shape"], problem["elements"], problem.get("before", {})

    def view(side, element_type):
        values = random((elements[side],), element_type)
        strides = problem.get(f"{side}Strides", torch.empty(shape, device="meta").stride())
        return values.as_strided(shape, strides, before.get(side, 0))

    backwards = [axis for axis, stride in enumerate(problem.get("inputStrides", [])) if stride < 0]
    if backwards:
        # Strides are at least 0 in PyTorch.
        whole = random(shape, dtype)
        return lambda: torch.flip(whole, backwards), 1
    source, target = view("input", dtype), view("output", types[problem.get("outputDtype", problem["dtype"])])
    return lambda: target.copy_(source), 1


def gather(problem, dtype):
    (rows, size), (first, last) = problem["shape"], problem["indexShape"]
    source = random((rows, size), dtype)
    if problem["axis"] == 0 and last == 1:
        chosen = torch.randint(rows, (first,), device=device)
        return lambda: torch.index_select(source, 0, chosen), 1
    along = torch.randint(problem["shape"][problem["axis"]], (first, last), device=device)
    return lambda: torch.gather(source, problem["axis"], along), 1


def scatter(problem, dtype):
    rows, size = problem["shape"]
    count = problem["indexShape"][0]
    target, updates = random((rows, size), dtype), random((count, size), dtype)
    indices = torch.randint(rows, (count,), device=device)
    if problem["kind"] == "set":
        return lambda: target.index_copy_(0, indices, updates), 1
    return lambda: target.index_add_(0, indices, updates), 1


def sort(problem, dtype):
    source, count = random(problem["shape"], dtype), problem["count"]
    if count < problem["shape"][-1]:
        return lambda: torch.topk(source, count, largest=False), 1
    return lambda: torch.sort(source, stable=True), 1


def small_operation(problem, dtype):
    a, b = random((problem["elements"],), dtype), random((problem["elements"],), dtype)

    def call():
        torch.neg(a, out=b)
        torch.neg(b, out=a)

    return call, 2


def recorded(calls):
    """A CUDA graph of these calls."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls()
    return graph


def recorded_operation(problem, dtype):
    call, each = small_operation(problem, dtype)
    operations = problem["operations"]
    graph = recorded(lambda: [call() for _ in range(operations // each)])
    return graph.replay, operations


def independent_operations(problem, dtype):
    operations = problem["operations"]
    a, b = random((problem["elements"],), dtype), random((problem["elements"],), dtype)
    c, d = torch.empty_like(a), torch.empty_like(a)
    left, right, rows = a[:16].view(4, 4), b[:16].view(4, 4), a.view(8, -1)

    def call():
        for _ in range(operations // 4):
            torch.neg(a, out=c)
            torch.add(a, b, out=d)
            torch.mm(left, right)
            torch.sum(rows, 1)
        wait()

    return call, operations


def synchronize(problem, dtype):
    a, b = random((problem["elements"],), dtype), random((problem["elements"],), dtype)

    def call():
        torch.neg(a, out=b)
        wait()

    return call, 1


def readback(problem, dtype):
    source = random((problem["bytes"] // 4,), dtype)
    host = torch.empty_like(source, device="cpu")
    return lambda: host.copy_(source), 1


def readback_after_step(problem, dtype):
    value, host = random((1,), dtype), torch.empty((1,), dtype=dtype)
    graph = recorded(lambda: [torch.neg(value, out=value) for _ in range(problem["operations"])])

    def call():
        graph.replay()
        host.copy_(value)

    return call, 1


def upload(problem, dtype):
    host = torch.rand(problem["bytes"] // 4, dtype=dtype)
    target = torch.empty_like(host, device=device)
    return lambda: target.copy_(host), 1


def download(problem, dtype):
    source = random((problem["bytes"] // 4,), dtype)
    host = torch.zeros(problem["bytes"] // 4, dtype=dtype)
    return lambda: host.copy_(source), 1


operations = {
    "gemm": gemm,
    "batchedGemm": batched_gemm,
    "quantizedGemm": quantized_gemm,
    "conv2d": conv2d,
    "conv2dInputGradient": conv2d_input_gradient,
    "conv2dFilterGradient": conv2d_filter_gradient,
    "pool2d": pool2d,
    "pool2dGradient": pool2d_gradient,
    "resize2d": resize2d,
    "resize2dGradient": resize2d_gradient,
    "attention": attention,
    "attentionGradient": attention_gradient,
    "rope": rope,
    "reduce": reduce,
    "argReduce": arg_reduce,
    "scan": scan,
    "sort": sort,
    "softmax": softmax,
    "softmaxGradient": softmax_gradient,
    "normalize": normalize,
    "normalizeGradient": normalize_gradient,
    "unary": unary,
    "binary": binary,
    "select": select,
    "map": map_nodes,
    "random": random_numbers,
    "copy": copy,
    "gather": gather,
    "scatter": scatter,
    "small operation": small_operation,
    "recorded operation": recorded_operation,
    "independent operations": independent_operations,
    "synchronize": synchronize,
    "readback": readback,
    "readback after a step": readback_after_step,
    "upload": upload,
    "download": download,
}


def run(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    wait()
    return time.perf_counter() - start


def sample(prepared, seconds, warm_up):
    """Seconds per operation, timed as contender.ts does it."""
    call, per_call = prepared
    each = run(call, 1) or 1e-6
    spent = 0.0
    while spent < warm_up:
        repeats = max(math.ceil((warm_up - spent) / 4 / each), 1)
        took = run(call, repeats)
        spent += took
        each = took / repeats
    repeats = max(math.ceil(seconds / each), 1)
    return run(call, repeats) / repeats / per_call


def about():
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    return {"name": "torch", "version": torch.__version__, "cuda": torch.version.cuda, "device": name}


def main():
    prepared = None
    for line in sys.stdin:
        try:
            question = json.loads(line)
            if question["do"] == "about":
                answer = about()
            elif question["do"] == "open":
                problem = question["problem"]
                prepare = operations.get(problem["operation"])
                if prepare is None:
                    raise NotImplementedError(f"nothing of PyTorch's does {problem['operation']}")
                # Our sums have the same bits every time, so that is asked of both.
                torch.use_deterministic_algorithms(problem["operation"] == "scatter")
                prepared = prepare(problem, types[problem.get("dtype", "f32")])
                # The first call chooses kernels, which may take long.
                prepared[0]()
                wait()
                answer = {}
            elif question["do"] == "sample":
                answer = {"seconds": sample(prepared, question["sample"], question["warmUp"])}
            elif question["do"] == "close":
                prepared = None
                if device.type == "cuda":
                    torch.cuda.empty_cache()
                answer = {}
            else:
                answer = {"error": f"cannot do {question['do']}"}
        except Exception as error:  # whatever it is, the benchmark goes on without this case
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


with torch.no_grad():
    main()

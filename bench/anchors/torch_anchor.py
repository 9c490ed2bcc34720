"""Times PyTorch's operations for bench/dist/main.js: one JSON object per line in, one answer each out.

{"do": "about"}                                      versions and device
{"do": "open", "problem": {...}}                     prepares a case of bench/src/cases
{"do": "sample", "sample": 0.05, "warmUp": 0.0125}   {"seconds": per operation}
{"do": "close"}                                      forgets it

f32 is computed in f32: TF32 is switched off. Answers {"error": text} where something cannot be done.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as functional

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
types = {"f32": torch.float32, "f16": torch.float16}


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize()


def random(shape, dtype):
    return (torch.rand(shape, device=device, dtype=torch.float32) * 2 - 1).to(dtype)


def gemm(problem, dtype):
    m, n, k = problem["m"], problem["n"], problem["k"]
    a = random((k, m), dtype).t() if problem["transA"] else random((m, k), dtype)
    b = random((n, k), dtype).t() if problem["transB"] else random((k, n), dtype)
    c = torch.empty((m, n), device=device, dtype=dtype)
    return lambda: torch.mm(a, b, out=c), 1


def batched_gemm(problem, dtype):
    batch, m, n, k = problem["batch"], problem["m"], problem["n"], problem["k"]
    a, b = random((batch, m, k), dtype), random((batch, k, n), dtype)
    c = torch.empty((batch, m, n), device=device, dtype=dtype)
    return lambda: torch.bmm(a, b, out=c), 1


def conv2d(problem, dtype):
    source, weights = random(problem["inputShape"], dtype), random(problem["filterShape"], dtype)
    if problem.get("layout") == "NHWC":
        source = source.permute(0, 3, 1, 2)  # the format "channels last"
    stride, padding, groups = problem["stride"], problem["padding"], problem["groups"]
    return lambda: functional.conv2d(source, weights, None, stride, padding, 1, groups), 1


def conv2d_gradient(problem, dtype, mask):
    source, weights = random(problem["inputShape"], dtype), random(problem["filterShape"], dtype)
    stride, padding, groups = ([problem[name]] * 2 for name in ("stride", "padding", "groups"))
    gradient = torch.rand_like(functional.conv2d(source, weights, None, stride, padding, 1, groups[0]))
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(
        gradient, source, weights, None, stride, padding, [1, 1], False, [0, 0], groups[0], mask
    ), 1


def conv2d_input_gradient(problem, dtype):
    return conv2d_gradient(problem, dtype, [True, False, False])


def conv2d_filter_gradient(problem, dtype):
    return conv2d_gradient(problem, dtype, [False, True, False])


def attention(problem, dtype):
    batch, heads, kv_heads, size = (problem[name] for name in ("batch", "heads", "kvHeads", "headSize"))
    q = random((batch, heads, problem["queries"], size), dtype)
    k, v = (random((batch, kv_heads, problem["keys"], size), dtype) for _ in range(2))
    options = {"is_causal": problem["causal"], "enable_gqa": heads != kv_heads}
    return lambda: functional.scaled_dot_product_attention(q, k, v, **options), 1


def reduce(problem, dtype):
    source, axis = random(problem["shape"], dtype), problem["axis"]
    function = {"sum": torch.sum, "max": torch.amax}[problem["kind"]]
    return (lambda: function(source)) if axis == "all" else (lambda: function(source, dim=axis)), 1


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
    c = torch.empty_like(a)
    return lambda: torch.add(a, b, out=c), 1


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
    # Ours has the same bits every time, so that is asked of both.
    torch.use_deterministic_algorithms(True)
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


def readback(_problem, dtype):
    value = random((1,), dtype)
    return lambda: value.item(), 1


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
    "conv2d": conv2d,
    "conv2dInputGradient": conv2d_input_gradient,
    "conv2dFilterGradient": conv2d_filter_gradient,
    "attention": attention,
    "reduce": reduce,
    "unary": unary,
    "binary": binary,
    "gather": gather,
    "scatter": scatter,
    "sort": sort,
    "small operation": small_operation,
    "readback": readback,
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
                prepare = operations[problem["operation"]]
                prepared = prepare(problem, types[problem.get("dtype", "f32")])
                # The first call chooses kernels, which may take long.
                prepared[0]()
                wait()
                answer = {}
            elif question["do"] == "sample":
                answer = {"seconds": sample(prepared, question["sample"], question["warmUp"])}
            elif question["do"] == "close":
                prepared = None
                torch.use_deterministic_algorithms(False)
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

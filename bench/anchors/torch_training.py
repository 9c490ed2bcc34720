"""Trains the models of bench/src/training/models.ts with PyTorch: one JSON object per line in, one answer each out.

{"do": "about"}                                       versions and device
{"do": "open", "model": "mlp", "parameters": [...]}   prepares a model; parameters as in bench/src/training/task.ts
{"do": "steps", "count": 5}                           does steps, and waits
{"do": "loss"}                                        {"loss": mean cross entropy}
{"do": "sample", "seconds": 0.3}                      {"step": seconds of a step, "host": of these, seconds of calls}
{"do": "close"}                                       forgets it

Option --graph: a step is a CUDA graph, captured once. f32 is computed in f32: TF32 is switched off.
Answers {"error": text} where something cannot be done.
"""

import json
import sys
import time

import torch
import torch.nn.functional as functional

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with_graph = "--graph" in sys.argv
batch, side, classes = 100, 28, 10
rate, momentum = 0.01, 0.9
steps_ahead = 16


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize()


def pixels():
    places = torch.arange(batch * side * side, dtype=torch.int64)
    drawn = (((places * 0x9E3779B1) & 0xFFFFFFFF) >> 16) & 255
    return (drawn.to(torch.float32) / 255).reshape(batch, side * side).to(device)


def mlp(parameters, images):
    x = images
    for i in range(0, len(parameters), 2):
        x = torch.addmm(parameters[i + 1], functional.relu(x) if i > 0 else x, parameters[i])
    return x


def cnn(parameters, images):
    f1, c1, f2, c2, w1, b1, w2, b2 = parameters
    x = images.reshape(batch, 1, side, side)
    for weights, bias in ((f1, c1), (f2, c2)):
        x = functional.relu(functional.max_pool2d(functional.conv2d(x, weights, bias), 2))
    return torch.addmm(b2, functional.relu(torch.addmm(b1, x.flatten(1), w1)), w2)


class Trainee:
    def __init__(self, model, parameters):
        self.forward = {"mlp": mlp, "cnn": cnn}[model]
        self.parameters = [
            torch.tensor(p["values"], dtype=torch.float32, device=device).reshape(p["shape"]).requires_grad_()
            for p in parameters
        ]
        self.images = pixels()
        self.labels = (torch.arange(batch) % classes).to(device)
        self.optimizer = torch.optim.SGD(self.parameters, lr=rate, momentum=momentum, fused=device.type == "cuda")
        self.graph = None
        if with_graph:
            self.capture()

    def computed(self):
        return functional.cross_entropy(self.forward(self.parameters, self.images), self.labels)

    def eager(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.computed().backward()
        self.optimizer.step()

    def capture(self):
        start = [p.detach().clone() for p in self.parameters]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.computed().backward()
            self.optimizer.step()
        # The steps of the warm-up are undone.
        with torch.no_grad():
            for parameter, value in zip(self.parameters, start):
                parameter.copy_(value)
                self.optimizer.state[parameter]["momentum_buffer"].zero_()

    def step(self):
        if self.graph is None:
            self.eager()
        else:
            self.graph.replay()

    def sample(self, seconds):
        wait()
        start = time.perf_counter()
        steps, host = 0, 0.0
        while True:
            begin = time.perf_counter()
            self.step()
            host += time.perf_counter() - begin
            steps += 1
            if steps % steps_ahead == 0:
                wait()
            if time.perf_counter() - start >= seconds:
                break
        wait()
        return {"step": (time.perf_counter() - start) / steps, "host": host / steps}


trainee = None


def answer(question):
    global trainee
    match question["do"]:
        case "about":
            name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
            kind = "CUDA graph" if with_graph else "eager"
            return {"name": f"PyTorch {torch.__version__}, {kind}, {name}"}
        case "open":
            trainee = Trainee(question["model"], question["parameters"])
        case "steps":
            for _ in range(question["count"]):
                trainee.step()
            wait()
        case "loss":
            with torch.no_grad():
                return {"loss": trainee.computed().item()}
        case "sample":
            return trainee.sample(question["seconds"])
        case "close":
            trainee = None
    return {}


for line in sys.stdin:
    try:
        reply = answer(json.loads(line))
    except Exception as error:  # whatever it is, the asker wants to know
        reply = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(reply), flush=True)

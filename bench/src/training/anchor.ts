import { Anchor } from "../anchor.js";
import type { Task, Trainee } from "./task.js";

/** Starts a process that trains, such as bench/anchors/torch_training.py, which has the questions. */
export async function openAnchor(command: string): Promise<{
  readonly name: string;
  open(task: Task): Promise<Trainee>;
  stop(): Promise<void>;
}> {
  const { anchor, about } = await Anchor.start(command);
  return { name: String(about.name), open: (task) => open(anchor, task), stop: () => anchor.stop() };
}

async function open(anchor: Anchor, { model, parameters }: Task): Promise<Trainee> {
  const numbers = parameters.map(({ shape, values }) => ({ shape, values: [...values] }));
  await anchor.ask({ do: "open", model, parameters: numbers });
  return {
    async step() {
      await anchor.ask({ do: "steps", count: 1 });
    },
    settle: () => {},
    loss: async () => Number((await anchor.ask({ do: "loss" })).loss),
    async sample(milliseconds) {
      const { step, host } = await anchor.ask({ do: "sample", seconds: milliseconds / 1000 });
      return { step: 1000 * Number(step), host: 1000 * Number(host) };
    },
    async close() {
      await anchor.ask({ do: "close" });
    },
  };
}

import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry } from "@backplane/core";

/** What the model is tested on. */
export const registry: BackendRegistry = new BackendRegistry([cpu(), webgpu()]);

export async function collected<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const list: Value[] = [];
  for await (const value of values) list.push(value);
  return list;
}

import type { Program } from "#src/program/program.js";

/**
 * A kernel whose only use of subgroups is `exchanged_1`, `_2`, `_4` and `of_lane`, for devices with any subgroups:
 * what invocations exchange goes through workgroup memory, in uniform control flow. Throws where there is
 * something else. It brings barriers of its own, so a missing one does not show.
 */
export function withoutShuffles<Binding extends string, Parameter extends string>(
  program: Program<Binding, Parameter>,
): Program<Binding, Parameter> {
  if (!program.source.includes("subgroupShuffle")) return program;
  const threads = Number(/@workgroup_size\((\d+)\)/.exec(program.source)![1]);
  const zeros = (components: string) => ", 0.0".repeat(4 - Number(components));
  const source = program.source
    .replaceAll(/^enable subgroups;\n/gm, "")
    .replaceAll(
      /(fn exchanged_(\d)\(value: \w+, mask: u32\) -> \w+) \{ return subgroupShuffleXor\(value, mask\); \}/g,
      (_, head, components) => `${head} {
  workgroupBarrier();
  emulated[emulated_lane] = vec4f(value${zeros(components)});
  workgroupBarrier();
  return emulated[emulated_lane ^ mask].${"xyzw".slice(0, Number(components))};
}`,
    )
    .replaceAll(/^\s*@builtin\(subgroup_\w+\) \w+: u32,\n?/gm, "")
    .replace(
      "{ return subgroupShuffle(value, place); }",
      `{
  workgroupBarrier();
  emulated[emulated_lane].x = value;
  workgroupBarrier();
  return emulated[place].x;
}`,
    )
    .replace("subgroup * subgroupSize + invocation", "lane")
    .replace("invocation - keyLane", "lane - keyLane")
    .replace(/(@builtin\(local_invocation_index\) lane: u32,?\s*\) \{)/, "$1\n  emulated_lane = lane;");
  const unknown = /.*subgroup[A-Z].*/.exec(source);
  if (unknown !== null) throw new Error(`${program.name}: not understood: ${unknown[0]}`);
  const functions = `
var<private> emulated_lane: u32;
var<workgroup> emulated: array<vec4f, ${threads}>;
`;
  return { ...program, name: `${program.name}_emulated`, source: `${source}\n${functions}` };
}

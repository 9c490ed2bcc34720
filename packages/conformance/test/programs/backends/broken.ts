// A module with one broken backend, offered as a provider.
import { mutants } from "#src/index.js";

const { create } = mutants.find(({ name }) => name === "drops the last k")!;

export default { name: "forgetful", create };

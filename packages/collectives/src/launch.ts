/** What a launcher such as `mpirun` tells the processes that it starts, by environment variables. */
export interface Launch {
  readonly family: Family;
  /** Undefined if the launcher does not say. */
  readonly size: number | undefined;
}

/** Libraries with one binary interface. */
export type Family = "Open MPI" | "MPICH";

type Environment = Readonly<Record<string, string | undefined>>;

/** The variables by which launchers are known, and which one has the number of processes. */
const launchers: readonly (readonly [family: Family, mark: string, size: string])[] = [
  ["Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"],
  // Hydra, as MPICH, Intel MPI and MVAPICH have it, and srun --mpi=pmi2
  ["MPICH", "PMI_RANK", "PMI_SIZE"],
  // srun --mpi=pmix, and the launcher of Open MPI 5
  ["Open MPI", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"],
];

/** Returns how this process was started; undefined if by no launcher of MPI. */
export function launchOf(environment: Environment): Launch | undefined {
  for (const [family, mark, size] of launchers)
    if (environment[mark] !== undefined)
      return { family, size: environment[size] === undefined ? undefined : Number(environment[size]) };
  return undefined;
}

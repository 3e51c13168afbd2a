/** Replaces fast-check. Each run has the same few cases. The first failure kills a mutant, so cases are not shrunk. */
import fc, { type IProperty, type Parameters } from 'fast-check'

const mostRuns = Number(process.env.MUTANTS_RUNS)

function assert<T>(property: IProperty<T>, parameters: Parameters<T> = {}) {
  const numRuns = Math.min(parameters.numRuns ?? 100, mostRuns)
  return fc.assert(property, { ...parameters, numRuns, seed: 1, endOnFailure: true })
}

export default { ...fc, assert }

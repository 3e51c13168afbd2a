/** The source of samples. */
import type { Sample } from '../../instance/agent/measures.ts'
import type { Instance } from '../agents.ts'
import type { Window } from './window.ts'

export type SampleSource = {
  /** Whether the API reads the pod itself. Then a pod that is older than the agent has no samples. */
  isAgent: boolean
  /**
   * Returns the samples of a window, and the sample before it, which is the base of the first rate. Returns an empty
   * list if nothing was measured in the window.
   * @throws if the samples cannot be read
   */
  read(instance: Instance, window: Window): Promise<Sample[]>
}

/** The source of samples. */
import type { Sample } from '../../instance/agent/measures.ts'
import type { Instance } from '../agents.ts'
import type { Window } from './window.ts'

export type SampleSource = {
  /** Whether the pod itself is read: a pod older than the agent then has no samples. */
  isAgent: boolean
  /**
   * The samples of a window, and the previous one, the base of the first rate. Empty if nothing was measured then.
   * @throws if they cannot be read
   */
  read(instance: Instance, window: Window): Promise<Sample[]>
}

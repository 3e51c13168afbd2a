/** Where samples come from. */
import type { Sample } from '../../instance/agent/measures.ts'
import type { Instance } from '../agents.ts'
import type { Window } from './window.ts'

export type SampleSource = {
  /** Whether the pod itself is asked: then there is none of one that was made before there was an agent. */
  isAgent: boolean
  /**
   * The samples of a window, and the one before it, from which the first step grew. None where nothing was measured then.
   * @throws where it cannot tell
   */
  read(instance: Instance, window: Window): Promise<Sample[]>
}

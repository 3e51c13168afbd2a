/** An installation for rounds of kills, independent of its platform. */
import type { ApiClient } from '../client.ts'
import type { Chance } from '../kubernetes/chance.ts'

export type Kill = {
  name: string
  /**
   * Kills without a warning, and restarts processes that are not restarted automatically. @returns whether a process
   * was killed
   */
  strike(chance: Chance): Promise<boolean>
}

export type Target = {
  /** Returns the API's current client, because its address and token may change with a kill. */
  api(): Promise<ApiClient>
  /** The source address of this process's connections, as databases see it. */
  clientAddress: string
  /** `databaseIds`: the databases with writers. The caller chooses one of the returned kills. */
  kills(databaseIds: readonly string[]): readonly [Kill, ...Kill[]]
  /** How long after the requests a kill may happen, in ms. */
  killsWithinMs: number
  /** Returns what remains after every database was deleted. May stop the installation. */
  leftover(): Promise<string[]>
  stop(): Promise<void>
}

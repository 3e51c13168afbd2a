/** An installation that rounds of kills run on: what the rounds need to know of it, whatever it runs on. */
import type { ApiClient } from '../client.ts'
import type { Chance } from '../kubernetes/chance.ts'

export type Kill = {
  name: string
  /** Kills without a warning, and restarts what nothing else restarts. @returns whether anything was there to be killed */
  strike(chance: Chance): Promise<boolean>
}

export type Target = {
  /** The API as it is reached now: its address and token may change with a kill. */
  api(): Promise<ApiClient>
  /** The address that databases see this process's connections come from. */
  clientAddress: string
  /** `databaseIds`: the databases that writers write to. One of those that are returned is chosen. */
  kills(databaseIds: readonly string[]): readonly [Kill, ...Kill[]]
  /** How long after the requests a kill may strike, in ms. */
  killsWithinMs: number
  /** What is left when every database was deleted. May stop the installation. */
  leftover(): Promise<string[]>
  stop(): Promise<void>
}

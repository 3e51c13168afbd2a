/** `espalier instance`: runs inside a database's pod, beside or before Postgres. */
import { runInstance } from '../../instance/index.ts'
import type { Command } from '../command.ts'

const command: Command = {
  help: 'Usage: espalier instance prepare --data DIR --configuration DIR --tls DIR',
  run: runInstance,
}
export default command

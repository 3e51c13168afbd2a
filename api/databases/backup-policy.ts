/** The durable tier of a database: in requests, in responses, and as stored. */
import { z } from 'zod'
import type { ManagedDatabaseSpec } from '../../crds/index.ts'
import { both } from '../schemas/components.ts'

const description =
  '`true` enables the durable tier: WAL is archived outside the volume, and durable backups are possible. A running database starts archiving at its next restart (`POST /databases/{id}/restart`).'
const shape = z
  .strictObject({ durable: z.boolean().describe(description) })
  .meta({ description: "The database's backup settings.", example: { durable: true } })

const { taken, given } = both('BackupPolicy', shape, shape)
export const backupPolicyInput = taken
export const backupPolicyShape = given
type BackupPolicyInput = z.output<typeof shape> | undefined

/** Returns the policy after a PATCH. Schedule and retention stay unchanged. */
export const storedBackupPolicy = (
  current: ManagedDatabaseSpec['backup'],
  input: BackupPolicyInput,
): ManagedDatabaseSpec['backup'] => (input === undefined ? current : { ...current, durable: input.durable })

/** The API returns the policy only with the durable tier. */
export const renderBackupPolicy = ({ backup }: Pick<ManagedDatabaseSpec, 'backup'>) =>
  backup.durable ? { durable: true } : undefined

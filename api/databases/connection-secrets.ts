/** Whether Kubernetes Secrets hold how clients connect: as the API takes and gives it, and as it is stored. */
import { z } from 'zod'
import type { ManagedDatabaseSpec } from '../../crds/index.ts'
import { both } from '../schemas/components.ts'

const description =
  '`true` keeps the Kubernetes Secrets NAME-app, NAME-admin and NAME-app-read-only in the namespace of the account, each with the address and the password of a role. The passwords are then readable for every client that may read Secrets there.'
const shape = z
  .strictObject({ secrets: z.boolean().describe(description) })
  .meta({ description: 'How clients inside the cluster get the passwords.', example: { secrets: true } })

const { taken, given } = both('Credentials', shape, shape)
export const credentialsInput = taken
export const credentialsShape = given

type Stored = ManagedDatabaseSpec['credentials']

/** What a spec has after this was asked; undefined where no Secrets are kept. */
export function storedCredentials(current: Stored, asked: z.output<typeof shape> | undefined): Stored {
  if (asked === undefined) return current
  return asked.secrets ? { secrets: true } : undefined
}

/** Shown only where Secrets are kept. */
export const renderCredentials = ({ credentials }: Pick<ManagedDatabaseSpec, 'credentials'>) =>
  credentials?.secrets === true ? { secrets: true } : undefined

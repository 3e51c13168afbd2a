/**
 * What a spec asks for that this version does not do. The API refuses it; what was asked for by kubectl is not passed over
 * in silence. A part that comes to be done goes from here.
 */
import type { ManagedDatabaseSpec } from '../../../crds/index.ts'
import { no } from '../../objects/conditions.ts'
import type { Findings } from '../conditions.ts'

export const notAvailableFindings = ({ services }: ManagedDatabaseSpec): Findings =>
  services.length > 0
    ? {
        ServicesReady: no('NotAvailable', 'services are not run by this version; nothing of spec.services is in force'),
      }
    : {}

/** The manifests and the Dockerfile say the same as each other and as the configuration they carry. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';

const deploy = join(import.meta.dirname, '../../deploy');
const text = (file: string): string => readFileSync(join(deploy, file), 'utf8');

interface Manifest {
  readonly kind: string;
  readonly data?: Record<string, string>;
  readonly stringData?: Record<string, string>;
  readonly spec?: { readonly template: { readonly spec: PodSpec } };
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Record<string, unknown>;
  readonly initContainers: readonly {
    readonly name: string;
    readonly restartPolicy: string;
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly startupProbe: Probe;
    readonly livenessProbe: Probe;
    readonly securityContext: Record<string, unknown>;
    readonly volumeMounts: readonly { readonly mountPath: string }[];
  }[];
}
interface Compose {
  readonly services: Record<string, Record<string, unknown>>;
  readonly configs: Record<string, { readonly file: string }>;
}

const manifests = parseAllDocuments(text('kubernetes/sidecar.yaml')).map((document) => {
  assert.deepEqual(document.errors, []);
  return document.toJS() as Manifest;
});
const kind = (name: string): Manifest => {
  const found = manifests.find((manifest) => manifest.kind === name);
  assert.ok(found, name);
  return found;
};
const podSpec = (): PodSpec => {
  const spec = kind('Deployment').spec?.template.spec;
  assert.ok(spec);
  return spec;
};

test('the ConfigMap carries the configuration that compose mounts', () => {
  assert.equal(kind('ConfigMap').data?.['sidekerb.yaml'], text('sidekerb.yaml'));
  const compose = parse(text('compose.yaml')) as Compose;
  assert.equal(compose.configs['sidekerb']?.file, './sidekerb.yaml');
});

test('the sidecar is a native one, probed where the configuration listens', () => {
  const config = parse(text('sidekerb.yaml')) as { admin: { probes: { listen: string } } };
  const [sidecar] = podSpec().initContainers;
  assert.equal(sidecar?.restartPolicy, 'Always');
  assert.equal(sidecar.startupProbe.httpGet.path, '/readyz');
  assert.equal(sidecar.livenessProbe.httpGet.path, '/healthz');
  const [port] = sidecar.ports;
  assert.equal(sidecar.startupProbe.httpGet.port, port?.name);
  assert.equal(config.admin.probes.listen, `0.0.0.0:${port?.containerPort}`);
});

test('the pod gives the sidecar no rights, no writable root and time to drain', () => {
  const spec = podSpec();
  assert.equal(spec.securityContext['runAsNonRoot'], true);
  assert.ok(spec.terminationGracePeriodSeconds > 25);
  assert.deepEqual(spec.initContainers[0]?.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
});

test('the secret is mounted where the configuration reads it', () => {
  const config = parse(text('sidekerb.yaml')) as {
    principals: Record<string, { password: { file: string } }>;
  };
  const names = Object.keys(kind('Secret').stringData ?? {});
  const files = Object.values(config.principals).map(({ password }) => password.file);
  assert.deepEqual(
    files,
    names.map((name) => `/run/secrets/${name}`),
  );
});

test('compose shares the loopback of the application and keeps the root read-only', () => {
  const { services } = parse(text('compose.yaml')) as Compose;
  const sidecar = services['sidekerb'];
  assert.equal(sidecar?.['network_mode'], 'service:app');
  assert.equal(sidecar['read_only'], true);
  assert.deepEqual(sidecar['cap_drop'], ['ALL']);
});

test('the Dockerfile ends without root, in exec form, with its own health check', () => {
  const [, final = ''] = text('Dockerfile').split('FROM scratch');
  assert.match(final, /^USER 65532:65532$/m);
  const forms = [...final.matchAll(/(?:ENTRYPOINT|CMD) (\[.*\])$/gm)].map(
    ([, form = '']) => JSON.parse(form) as string[],
  );
  assert.deepEqual(forms, [
    ['/usr/bin/node', '/app/cmd/sidekerb.ts', 'ready'],
    ['/usr/bin/node', '/app/cmd/sidekerb.ts'],
    ['run', '--config', '/etc/sidekerb/sidekerb.yaml'],
  ]);
  assert.equal(kind('Deployment').spec?.template.spec.securityContext['runAsUser'], 65532);
});

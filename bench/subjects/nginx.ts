/**
 * nginx: one worker, connections to the origin kept, no logs. Bodies are passed on as they come, as
 * sidekerb does, through a buffer that holds the largest; by default nginx would write those of 64 KiB
 * to a file first, and be five times as slow.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Child } from '../child.ts';
import { POOL_SIZE, type Subject, type SubjectContext } from './subject.ts';

export const nginx: Subject = {
  name: 'nginx',
  requires: { program: 'nginx', debianPackage: 'nginx-light' },
  start: async (context) => {
    const file = join(context.folder, 'nginx.conf');
    await writeFile(file, configuration(context));
    return Child.start({
      name: 'nginx',
      command: 'nginx',
      args: ['-p', context.folder, '-e', 'stderr', '-c', file],
      core: context.core,
    });
  },
};

/** The same with HTTP/2 over TLS. */
export async function startHttp2Nginx(
  context: SubjectContextOf & { readonly certFile: string; readonly keyFile: string },
): Promise<Child> {
  const file = join(context.folder, 'nginx.conf');
  const { certFile, keyFile } = context;
  const tls = `ssl_certificate ${certFile};\n    ssl_certificate_key ${keyFile};`;
  await writeFile(
    file,
    configuration(context).replace('backlog=1024;', `ssl http2 backlog=1024;\n    ${tls}`),
  );
  return Child.start({
    name: 'nginx',
    command: 'nginx',
    args: ['-p', context.folder, '-e', 'stderr', '-c', file],
    core: context.core,
  });
}

type SubjectContextOf = Pick<SubjectContext, 'folder' | 'port' | 'openOriginPort' | 'core'>;

function configuration({ folder, port, openOriginPort }: SubjectContextOf): string {
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `  ${name}_temp_path ${folder}/${name};\n`,
  );
  return `daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
${paths.join('')}  access_log off;
  client_body_buffer_size 128k;
  keepalive_requests 1000000000;
  upstream origin {
    server 127.0.0.1:${openOriginPort};
    keepalive ${POOL_SIZE};
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / {
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
    }
  }
}
`;
}
